"""Public numbers: what the Meter answers, what a release holds, and what may be done with it for nothing."""
