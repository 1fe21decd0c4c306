"""Functions on tensors, without parameters: attention and its kernels, masks, biases, position formulas, a loss."""

from headway.ops.attend import KERNELS, attend, attention_weights
from headway.ops.attention_scores import bias_of, scores_of, weights_of
from headway.ops.biases import Alibi, Bias, Relative
from headway.ops.check import check_shape
from headway.ops.kernels.reference import masked_softmax
from headway.ops.linear_cross_entropy import linear_cross_entropy
from headway.ops.masks import Causal, Global, Lengths, Listed, Mask, NotSelf, Offset, Packed, Prefix, Table, Window
from headway.ops.positions import alibi_slopes, rotary_angles, rotate, sinusoids

expect = check_shape  # its former name

__all__ = [
    "KERNELS",
    "Alibi",
    "Bias",
    "Causal",
    "Global",
    "Lengths",
    "Listed",
    "Mask",
    "NotSelf",
    "Offset",
    "Packed",
    "Prefix",
    "Relative",
    "Table",
    "Window",
    "alibi_slopes",
    "attend",
    "attention_weights",
    "bias_of",
    "check_shape",
    "expect",
    "linear_cross_entropy",
    "masked_softmax",
    "rotary_angles",
    "rotate",
    "scores_of",
    "sinusoids",
    "weights_of",
]
