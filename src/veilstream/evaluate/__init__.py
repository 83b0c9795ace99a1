"""How good releases are: metrics, range queries, repeated measurements, and the comparison of mechanisms."""
