"""`headway serve`: runs behind HTTP. A front process without torch, and an engine process for each run."""
