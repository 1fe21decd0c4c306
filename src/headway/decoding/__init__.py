"""Generation on any Stepper."""
