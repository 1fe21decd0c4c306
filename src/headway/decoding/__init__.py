"""Generation with any `Stepper`: beam search, sampling, constraints, ensembles, recorded searches."""
