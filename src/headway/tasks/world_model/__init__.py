"""World models."""
