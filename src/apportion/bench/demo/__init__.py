"""`make demo`: credit against truth on enumerable tasks, then learning with two methods on a real environment."""

from apportion.bench.demo.run import SIZES, Size, Told, equipped, run_demo

__all__ = ["SIZES", "Size", "Told", "equipped", "run_demo"]
