from __future__ import annotations

from headway.labs import heads
from tests.labs.broken import Mutation

build = heads.build

BROKEN = (Mutation("build", lambda width, count: build(width, 1), fails="2 heads: both"),)  # a single head
