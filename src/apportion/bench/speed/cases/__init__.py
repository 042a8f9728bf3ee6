"""One file per group of kernels."""
