"""Data: what the models learn from, as text and as batches."""
