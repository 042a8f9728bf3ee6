"""A plug-in that cannot be imported; it may break nobody's name but its own."""

import a_package_that_nobody_has  # noqa: F401
