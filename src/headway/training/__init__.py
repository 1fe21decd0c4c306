"""The loop, optimisers, schedules, checkpoints and exact resume."""
