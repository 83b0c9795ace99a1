"""Tools for authors and researchers: simulation with a seed, the conformance suite, meters that record."""
