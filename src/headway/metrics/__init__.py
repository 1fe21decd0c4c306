"""Metrics: BLEU, perplexity, accuracy, CIDEr, object keypoint similarity, returns."""
