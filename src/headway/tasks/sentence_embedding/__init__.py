"""Sentence embedding."""
