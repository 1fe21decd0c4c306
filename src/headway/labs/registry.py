"""The labs by name, in the order of the course.

To add a lab, write its file with an object `LAB` (headway.labs.frame has the contract) and one line here, below its
chapter. Another package registers its `Lab` as an entry point of the group `headway.labs` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headway.errors import ConfigError, shown
from headway.suggestions import did_you_mean

if TYPE_CHECKING:
    from headway.labs.frame import Lab

GROUP = "headway.labs"


class Labs(Mapping[str, "Lab[Any]"]):
    """A registry of labs, each imported when it is looked up; entry points come behind what is built in."""

    def __init__(self, homes: Mapping[str, str], group: str | None = GROUP) -> None:
        self.homes, self.group = dict(homes), group

    def __getitem__(self, name: str) -> Lab[Any]:
        """The lab of this name. Raises KeyError, and ConfigError for a plugin that is no lab."""
        from headway.labs.frame import Lab

        if name in self.homes:
            module, _, wanted = self.homes[name].partition(":")
            found: Any = getattr(import_module(module), wanted)
        else:
            from headway.config import loaded

            found = loaded(self.group, name)
        if not isinstance(found, Lab) or found.name != name:
            raise ConfigError(f"plugin {name!r} of group {self.group}: expected a Lab of that name, got {shown(found)}")
        return found

    def loadable(self, told: Callable[[str], None]) -> list[Lab[Any]]:
        """All labs; `told` is called with what is wrong with a plugin that cannot be loaded, which is left out."""
        found = []
        for name in self:
            try:
                found.append(self[name])
            except ConfigError as error:
                told(str(error))
        return found

    def __iter__(self) -> Iterator[str]:
        from headway.config import plugins

        yield from self.homes
        yield from (name for name in plugins(self.group) if name not in self.homes)

    def __len__(self) -> int:
        return sum(1 for _ in self)


LABS = Labs(
    {
        # 1 Memory
        "party": "headway.labs.party:LAB",
        # 2 Depth
        "approximator": "headway.labs.approximator:LAB",
        "identity": "headway.labs.identity:LAB",
        "blow-up": "headway.labs.blow_up:LAB",
        "norms": "headway.labs.norms:LAB",
        "tricks": "headway.labs.tricks:LAB",
        # 3 Speaking
        "tokens": "headway.labs.tokens:LAB",
        "sentences": "headway.labs.sentences:LAB",
        "sampling": "headway.labs.sampling:LAB",
        # 4 Reading and writing
        "captions": "headway.labs.captions:LAB",
        "bottleneck": "headway.labs.bottleneck:LAB",
        "scores": "headway.labs.scores:LAB",
        "distance": "headway.labs.distance:LAB",
        "john": "headway.labs.john:LAB",
        "parallel": "headway.labs.parallel:LAB",
        # 5 Attention
        "lookup": "headway.labs.lookup:LAB",
        "scaling": "headway.labs.scaling:LAB",
        "heads": "headway.labs.heads:LAB",
        "linear": "headway.labs.linear:LAB",
        "future": "headway.labs.future:LAB",
        # 6 Order
        "permutation": "headway.labs.permutation:LAB",
        "robots": "headway.labs.robots:LAB",
        "gallery": "headway.labs.gallery:LAB",
        "dials": "headway.labs.dials:LAB",
        "positions": "headway.labs.positions:LAB",
        # 7 The transformer
        "deck": "headway.labs.deck:LAB",
        "forcing": "headway.labs.forcing:LAB",
        "search": "headway.labs.search:LAB",
        "cache": "headway.labs.cache:LAB",
        "table": "headway.labs.table:LAB",
        # 8 Pretraining
        "ladder": "headway.labs.ladder:LAB",
        "company": "headway.labs.company:LAB",
        "masked": "headway.labs.masked:LAB",
        "tuning": "headway.labs.tuning:LAB",
        # 9 Pictures and anything
        "patches": "headway.labs.patches:LAB",
        "bias": "headway.labs.bias:LAB",
        "anything": "headway.labs.anything:LAB",
        # 10 Further
        "flash": "headway.labs.flash:LAB",
        "window": "headway.labs.window:LAB",
        "pondering": "headway.labs.pondering:LAB",
        "world": "headway.labs.world:LAB",
    }
)


def lab(name: str) -> Lab[Any]:
    """The lab of this name. Raises ConfigError naming the nearest ones."""
    if name not in [*LABS]:
        raise ConfigError(f"no lab {shown(name)}: {did_you_mean(name, LABS)}`headway lab` lists them")
    return LABS[name]
