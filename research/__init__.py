"""The papers' experiments, run again under corrected guarantees: workloads, data sets, figures."""
