"""``python -m apportion.cli``."""

from apportion.cli import main

main()
