"""Tasks, one folder each: how data is prepared and trained on, and what a finished run can do."""
