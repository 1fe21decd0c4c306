"""The templates: each draws words and returns a phrase, or None when the words do not fit together."""

from __future__ import annotations

from collections.abc import Callable

from tools.phrases.draw import Draw
from tools.phrases.grammar import Phrase
from tools.phrases.templates import action, compound, copular, having, nominal

Template = Callable[[Draw], Phrase | None]

TEMPLATES: dict[str, Template] = {
    f"{module.__name__.rpartition('.')[2]}.{template.__name__}": template
    for module in (nominal, copular, having, action, compound)
    for template in module.TEMPLATES
}
