"""Looking inside: every tap by its public name, capture while the kernel runs, and what is made of it."""

from headway.inspection.capturing import capture
from headway.inspection.points import TapPoint, taps
from headway.inspection.seen import Line, Pass, Seen

__all__ = ["Line", "Pass", "Seen", "TapPoint", "capture", "taps"]
