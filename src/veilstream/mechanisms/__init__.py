"""Mechanisms: what publishes a histogram or a stream of them, from sealed data through the Meter."""
