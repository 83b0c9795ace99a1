"""A publishing job from its settings to its releases, the same for the command line and for Python."""
