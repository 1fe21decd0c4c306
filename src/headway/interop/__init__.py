"""Others' checkpoints: their names beside ours."""
