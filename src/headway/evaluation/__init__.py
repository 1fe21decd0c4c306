"""The metrics: what a model's outputs are worth, on plain strings, ids and arrays."""
