"""Speed, as ratios measured in one run: ours, the peers' published code, NumPy alone, and the memory bus.

One file below `cases` is one group of kernels: a function decorated with `@case` that yields `Comparison`s.
Values are compared before anything is timed. Times are CPU times, medians over interleaved rounds, so that
other work on the machine disturbs all contenders alike.
"""
