"""The page: one self-contained HTML file that shows what a model did with an input, from its own tensors."""
