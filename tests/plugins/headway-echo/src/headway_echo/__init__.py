"""Tell whether the second half of a string repeats the first: a task, a model, a preset and a data set for headway."""
