"""Layers with parameters: attention, positions, norms, feed-forward, block, stack, recurrent layers, alignment."""
