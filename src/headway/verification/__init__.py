"""`headway verify`: do all code paths of a model agree on its logits?"""
