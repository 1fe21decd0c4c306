"""Small experiments on one question each, run by `headway lab`."""
