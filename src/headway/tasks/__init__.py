"""What ties model, data, loss and metric together, one file a kind of problem."""
