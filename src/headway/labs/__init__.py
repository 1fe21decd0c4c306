"""Small experiments on one question each, run by the command `lab`."""
