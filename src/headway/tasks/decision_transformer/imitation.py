"""Which logged episodes a decision transformer imitates, and whether it is given their returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headway.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headway.data.episodes import Episodes


@dataclass(frozen=True, slots=True, kw_only=True)
class AllEpisodes:
    """Every logged episode, given its return to go: a run is asked for a return when it plays."""

    asks: ClassVar[bool] = True
    title: ClassVar[str] = "a decision transformer: it imitates logged episodes and has no model of the world"

    def chosen(self, episodes: Episodes) -> Episodes:
        """All of them."""
        return episodes

    def given_returns(self, episodes: Episodes) -> NDArray[np.float64]:
        """The return to go that the model reads at each row (N,)."""
        return episodes.returns_to_go()


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEpisodes:
    """Behaviour cloning of the episodes with the highest returns: every return to go that the model reads is 0.

    This is %BC of Chen et al. 2021, section 5.1. Departures: their share is of time steps, this one is of episodes; the
    network is the decision transformer itself.
    """

    share: float = 0.1  # of the logged episodes, above 0 up to 1; at least one is imitated

    asks: ClassVar[bool] = False
    title: ClassVar[str] = "behaviour cloning of the logged episodes with the highest returns"

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ConfigError(f"task.imitate.share={self.share}, allowed: above 0, up to 1")

    def chosen(self, episodes: Episodes) -> Episodes:
        """The best ones in the order of the log; of equal returns the earlier."""
        import numpy as np

        count = max(round(self.share * len(episodes)), 1)
        return episodes.pick(np.sort(np.argsort(-episodes.returns, kind="stable")[:count]))

    def given_returns(self, episodes: Episodes) -> NDArray[np.float64]:
        """0 at each row (N,)."""
        import numpy as np

        return np.zeros(len(episodes.rewards))


Imitation = AllEpisodes | BestEpisodes
