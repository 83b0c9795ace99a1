"""The trust boundary: sealed data, the statistics proved for them, and the Meter, the only door to numbers."""
