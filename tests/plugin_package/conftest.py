"""The plug-in's own tests run where it is installed, not here."""

collect_ignore = ["acme"]
