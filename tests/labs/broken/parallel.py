from __future__ import annotations

from headway.labs import parallel
from tests.labs.broken import Mutation

BROKEN = (
    Mutation("recurrent_needs", parallel.attention_needs, fails="recurrent: steps"),
    Mutation("attention_needs", parallel.recurrent_needs, fails="attention: steps"),
    Mutation("at_once", parallel.row_by_row, fails="256 rows one after another"),
    Mutation("row_by_row", lambda x, weights: x, fails="row by row and at once"),
)
