"""Timings against named peers; ``python -m benchmarks`` writes the pages of docs/benchmarks."""
