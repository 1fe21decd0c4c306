"""What capabilities answer for a pipeline that leaves a part of them out."""

from __future__ import annotations

import pytest

from headway.errors import ConfigError
from headway.tasks.capabilities import PlayResult


def test_a_play_without_pictures_says_so():
    class Bare(PlayResult):
        def to_json(self):
            return {}

        def facts(self):
            return {}

    with pytest.raises(ConfigError, match="no episode to show"):
        Bare().render(".gif")
