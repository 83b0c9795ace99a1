"""Making a release: ``python -m delivery`` builds, compares, installs and lists what goes into ``dist``."""
