"""The live page of `headway look RUN --live`: a run that computes what the page asks for, on this machine alone."""
