"""Looking inside: every tap by its public name, capture while the kernel runs, and what is made of it."""

from headway.inspection.ablation import ablate, head_effects
from headway.inspection.capture import capture
from headway.inspection.capture_result import Line, Pass, Seen
from headway.inspection.heads import HeadStatistics, head_statistics
from headway.inspection.links import Link, links
from headway.inspection.logit_lens import logit_lens
from headway.inspection.neighbours import Neighbour, nearest, neighbours
from headway.inspection.patching import patch, patch_effects
from headway.inspection.rollout import picture_rollout, rollout
from headway.inspection.tap_names import TapPoint, taps

__all__ = [
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
