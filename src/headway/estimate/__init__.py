"""What a training needs before it is begun: memory by part and rank, arithmetic, time and cost; and decoding.

Memory is not calculated but tried: the real model, loss and optimiser take a step on tensors without values. Closed
formulas stand beside it as a check.
"""
