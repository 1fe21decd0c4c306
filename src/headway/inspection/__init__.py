"""Inspection: taps by public name, capture while the fast kernel runs, and analyses of what was captured."""

from headway.inspection.ablation import ablate, head_effects
from headway.inspection.capture import capture
from headway.inspection.capture_result import CaptureResult, DecodedHypothesis, Pass
from headway.inspection.heads import HeadStatistics, Link, head_statistics, links
from headway.inspection.logit_lens import logit_lens
from headway.inspection.neighbours import Neighbour, nearest, neighbours
from headway.inspection.patching import patch, patch_effects
from headway.inspection.rollout import picture_rollout, rollout
from headway.inspection.tap_names import TapPoint, taps

Seen = CaptureResult  # older name
Line = DecodedHypothesis  # older name

__all__ = [
    "CaptureResult",
    "DecodedHypothesis",
    "HeadStatistics",
    "Line",
    "Link",
    "Neighbour",
    "Pass",
    "Seen",
    "TapPoint",
    "ablate",
    "capture",
    "head_effects",
    "head_statistics",
    "links",
    "logit_lens",
    "nearest",
    "neighbours",
    "patch",
    "patch_effects",
    "picture_rollout",
    "rollout",
    "taps",
]
