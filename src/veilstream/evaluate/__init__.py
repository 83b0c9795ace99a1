"""How good releases are: metrics, workloads and data sets for experiments."""
