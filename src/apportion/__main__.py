"""``python -m apportion``."""

from apportion.cli import main

main()
