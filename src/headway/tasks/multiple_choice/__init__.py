"""Multiple choice: which of several texts answers a question or continues a context."""

from headway.tasks.multiple_choice.config import MultipleChoice

__all__ = ["MultipleChoice"]
