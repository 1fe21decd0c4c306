"""The decks' experiments, to run and change."""
