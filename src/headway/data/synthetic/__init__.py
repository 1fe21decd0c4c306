"""Data sets that need no files: generated, and the same on every machine."""
