"""Timings against named peers; ``python -m benchmarks`` writes docs/benchmarks.md."""
