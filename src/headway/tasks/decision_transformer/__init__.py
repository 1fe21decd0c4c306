"""Decision Transformer."""
