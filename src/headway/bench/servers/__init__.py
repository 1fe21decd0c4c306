"""Programs that serve a model with another library; each runs in that library's environment and imports no headway."""
