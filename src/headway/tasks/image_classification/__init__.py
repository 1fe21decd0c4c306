"""Image and sound classification."""
