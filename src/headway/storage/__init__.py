"""Writing and checking files: atomic commits, manifests, tensors."""
