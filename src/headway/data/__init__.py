"""Data sets, tokenizers and batches: text, images, sounds, episodes."""
