"""The training loop: trainer, optimisers, schedules, checkpoints, exact resume."""
