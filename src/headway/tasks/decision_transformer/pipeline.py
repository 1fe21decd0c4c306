"""A finished decision transformer at work: it plays, is evaluated and explained."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

import torch

from headway.counts import counted
from headway.decoding.non_finite import expect_finite
from headway.errors import DataError
from headway.tasks.base import EvaluateRequest, Pipeline, split_of
from headway.tasks.capabilities import Plays

if TYPE_CHECKING:
    from headway.models.decision_transformer import Decision
    from headway.tasks.decision_transformer.config import Deciding
    from headway.tasks.decision_transformer.play import Attempt
    from headway.tasks.decision_transformer.report import ReturnsReport
    from headway.tasks.decision_transformer.training import DecisionTraining
    from headway.tasks.explanation import Explanation
    from headway.tasks.report import Report

TOKENS, STATES = "tokens", "states"
EPISODES = 100  # for each target of an evaluation
LARGEST_RETURN = 1e30  # far below the largest float32


class DecisionPipeline(Pipeline, Plays):
    """Acts in an environment to reach a target return, or as the best logged episodes did."""

    evaluate_options = frozenset({"plot"})

    @cached_property
    def training(self) -> DecisionTraining:
        """The log, read once."""
        return cast("DecisionTraining", self.read())

    def play(self, *, episodes: int = 100, seed: int = 0) -> ReturnsReport:
        """Ask for each of the task's returns in fresh episodes."""
        return self.training.asked(self.model, self.device, episodes=episodes, seed=seed)

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Loss of the logged actions, and what comes of asking for returns."""
        from headway.metrics.language import perplexity
        from headway.tasks.report import Facts, Report

        training = self.training if request.data is None else cast("DecisionTraining", self.read(request.data))
        split = split_of(training.splits, request.split)
        loss = training.evaluate(self.model, self.device, split)
        played = training.asked(self.model, self.device, episodes=EPISODES, seed=0)
        rows = {"loss": f"{loss:.4f}  nats an action", **played.facts()}
        return Report(
            split=split,
            values={"loss": loss, "perplexity": perplexity(loss), **played.evaluation()},
            sections=[Facts(rows), *played.tables()],
            plot=partial(played.plot, "png"),
        )

    @torch.no_grad()
    def explain(self, given: str) -> Explanation:
        """A fresh episode with the target return `given`, and the actions that were likely at its last steps."""
        from headway.tasks.decision_transformer.play import Attempt
        from headway.tasks.explanation import Explanation, Output, StackDescription

        told = "the page of a decision transformer shows an episode; INPUT is the return to ask for, a number"
        try:
            target = float(given)
        except ValueError:
            raise DataError(f"{given!r}: {told}") from None
        if not abs(target) <= LARGEST_RETURN:
            raise DataError(f"{given!r}: {told} from {-LARGEST_RETURN:g} to {LARGEST_RETURN:g}")
        model = cast("Decision", self.model)
        asks = cast("Deciding", self.task).imitate.asks
        attempt = Attempt(self.training.make(), target if asks else None, seed=0)
        if not attempt.seen:
            raise DataError(f"{self.training.name}: no episode to show, as the environment failed when it was reset")
        while attempt.goes_on and len(attempt.seen) < model.context:
            attempt.step(int(self._logits(attempt, model.context)[-1].argmax()))
        length = min(len(attempt.actions), model.context)
        done = [*attempt.actions[-length:-1], int(self._logits(attempt, length)[-1].argmax())]
        asked = attempt.window(0, length)
        names = []
        for n, (wanted, action) in enumerate(zip(asked, done, strict=True)):
            names += [f"R{wanted:g}", f"s{n}", f"a{action}"]
        states = {"label": "States", "tokens": names[1::3], "writes": [f"action {n}" for n in done], "start": 0}
        return Explanation(
            kind="decision",
            given=f"{self.training.name}, " + (f"return {target:g}" if asks else "no return asked for"),
            said=f"return {attempt.total:g} after {counted(len(attempt.seen), 'step')}",
            forward=lambda: self._logits(attempt, length),
            reads={"": StackDescription(label="Decision transformer", sequence=TOKENS)},
            sequences={
                TOKENS: {"label": "Returns to go (R), states (s), actions (a)", "tokens": names, "start": 1},
                STATES: states,
            },
            output=Output(
                name=lambda n: f"action {n}", label="What is done next", sequence=STATES, targets=done, unit="action"
            ),
        )

    @torch.no_grad()
    def _logits(self, attempt: Attempt, length: int) -> torch.Tensor:
        """The logits of the action (T, A) at each of an attempt's last steps."""
        inputs = (torch.from_numpy(attempt.window(n, length)).unsqueeze(0).to(self.device) for n in range(3))
        logits: torch.Tensor = self.model(*inputs)
        expect_finite(logits[0], "step")
        return logits[0]
