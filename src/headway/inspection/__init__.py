"""Looking inside: what a model did with an input."""
