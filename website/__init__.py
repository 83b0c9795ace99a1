"""The documentation site: ``python -m website build``; pages that are generated, pictures, the gallery of examples."""
