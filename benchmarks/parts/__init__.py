"""Parts that the benchmarks share."""
