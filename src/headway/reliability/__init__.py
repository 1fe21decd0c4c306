"""`headway reliability`: faults injected by the thousand on your machine, and a table of what happened."""
