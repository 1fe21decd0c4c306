"""The page: one HTML file that shows what a model did with an input, from its own tensors, with the network off."""
