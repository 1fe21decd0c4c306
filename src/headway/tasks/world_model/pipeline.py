"""A finished world model at work: it plays, is evaluated and explained."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

from headway.counts import counted
from headway.errors import DataError
from headway.tasks.base import EvaluateRequest, Pipeline, split_of
from headway.tasks.capabilities import Plays

if TYPE_CHECKING:
    from headway.metrics.world import WorldReport
    from headway.models.world import World
    from headway.tasks.explanation import Explanation
    from headway.tasks.report import Report, Section
    from headway.tasks.world_model.play import PlayReport
    from headway.tasks.world_model.training import WorldTraining

EPISODES = 100  # that the policy plays for an evaluation
SHOWN = 24  # steps of an episode on the page
STEPS = "steps"
WHY = {  # of each part of the regret
    "time": "a policy that does not know the time",
    "exploration": "planned with the frequencies of the collected steps",
    "model": "planned with the learned model instead",
    "policy": "the learned policy instead",
}
LABEL = "Steps of the episode: state (s) or time (t), action (a)"


class WorldPipeline(Pipeline, Plays):
    """Acts in an environment by a policy that was learned in imagination."""

    has_baseline = True

    @cached_property
    def training(self) -> WorldTraining:
        """The episodes it was learned from, read once. Raises DataError if a round of them is missing."""
        found = cast("WorldTraining", self.read())
        _, newest = self.parts.newest()
        found.expect_rounds(newest)
        return found

    @property
    def world(self) -> World:
        """The model."""
        return cast("World", self.model)

    def play(self, *, episodes: int = 100, seed: int = 0) -> PlayReport:
        """Act in the real environment on fresh seeds, beside chance, Q-learning on the same data, and the optimum."""
        from headway.tasks.world_model.play import play_report

        return play_report(self.world, self.training, self.device, episodes=episodes, seed=seed)

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Loss, error by horizon, calibration of ends and rewards, imagined and real returns."""
        from headway.tasks.report import Report
        from headway.tasks.world_model.evaluation import report

        training = self.training if request.data is None else cast("WorldTraining", self.read(request.data))
        split = split_of(training.splits, request.split)
        found = report(self.world, training, split, self.device, episodes=EPISODES, seed=0)
        return Report(split=split, values=found.to_json(), sections=_sections(found))

    @torch.no_grad()
    def explain(self, given: str) -> Explanation:
        """The first steps of a real episode, `given` being its seed, and what the model expects to observe next."""
        from headway.data.episodes import play
        from headway.tasks.explanation import Explanation, Output, StackDescription
        from headway.tasks.world_model.policy import learned

        try:
            seed = int(given)
        except ValueError:
            raise DataError(
                f"{given!r}: the page of a world model shows an episode; INPUT is its seed, a number"
            ) from None
        world = self.world
        episode = play(self.training.make, learned(world, self.device), iter([seed]))
        rows = np.arange(len(episode.actions) - 1)[:SHOWN]
        if not len(rows):
            raise DataError(f"{self.training.name}, seed {seed}: the episode has no step to show")
        observations = torch.from_numpy(episode.observations[np.append(rows, rows[-1] + 1)]).to(self.device)
        states = world.reader.state(observations).unsqueeze(0)
        actions = torch.from_numpy(episode.actions[rows]).to(self.device).unsqueeze(0)
        ages = torch.arange(len(rows), device=self.device).unsqueeze(0)
        before, after = states[:, :-1], states[:, 1:]
        # Short names, which the page's charts have room for: a state of one symbol by its number, others by their step.
        named = [f"s{int(state)}" if state.numel() == 1 else f"t{n}" for n, state in enumerate(before[0])]
        names = [f"{state}·a{int(action)}" for state, action in zip(named, actions[0], strict=True)]

        @torch.no_grad()
        def forward() -> torch.Tensor:
            h = world(before, actions, ages)
            logits = world.reader.next_logits(h)
            found: torch.Tensor = (h if logits is None else logits)[0]
            return found

        output = None
        if world.reader.next_logits(world(before, actions, ages)) is not None:
            targets = [int(each) for each in after[0].flatten()]
            label = "What is observed next"
            output = Output(
                name=lambda index: f"state {index}", label=label, sequence=STEPS, targets=targets, unit="state"
            )
        return Explanation(
            kind="world",
            given=f"{self.training.name}, seed {seed}",
            said=f"return {float(episode.returns[0]):g}",
            forward=forward,
            reads={"": StackDescription(label="World model", sequence=STEPS)},
            sequences={STEPS: {"label": LABEL, "tokens": names, "start": 0}},
            output=output,
        )


def _sections(report: WorldReport) -> list[Section]:
    """The score and what it cost, how far imagined rollouts stray, whether predicted probabilities come true."""
    from headway.metrics.world import calibration_error
    from headway.tasks.report import Facts, Figures

    rows = {
        "loss": f"{report.loss:.4f}  -log p of the next observation and of the end, with the reward's error, a step",
        "mean_return": f"{report.real}  of {counted(report.real.episodes, 'fresh episode')}, "
        f"{counted(report.taken, 'environment step')}",
        "imagined_return": f"{report.imagined}  what the model says the same policy earns",
        "imagined_less_real": f"{report.gap}  95 % interval, "
        + ("which covers 0" if report.gap.covers_zero else "which does not cover 0"),
        "familiar_steps": f"{report.familiar:.4f}  of the policy's steps, state and action, are among the collected",
        "limited_by": f"{report.limited_by or 'none of its parts'}  which costs most return",
        **{name: f"{value:.4f}" for name, value in report.tables.items()},
    }
    header = ["steps ahead", "error", "repeating the last", "rollouts"]
    ahead = [[str(x.k), f"{x.error:.5f}", f"{x.repeated:.5f}", f"{x.count:,}"] for x in report.by_horizon]
    sections: list[Section] = [Facts(rows), Figures(header, ahead, title="open-loop error")]
    steps = [[str(x.step), f"{x.imagined:.3f}", f"{x.real:.3f}"] for x in report.by_step]
    sections.append(Figures(["step", "imagined", "real"], steps, title="return up to a step of the episode"))
    if report.regret is not None:
        found = report.regret
        lost = {name: f"{value:.4f}" for name, value in found.lost.items()}
        told = {
            "regret": f"{found.optimum - found.policy:.4f}  expected {found.policy:.4f}, optimum {found.optimum:.4f}",
            **{f"regret_of_{name}": f"{value}  {WHY[name]}" for name, value in lost.items()},
            "regret_in_model": f"{found.imagined_optimum - found.imagined:.4f}  against the model's own best policy",
            "pairs_visited": f"{found.visited} of {found.pairs} reachable pairs of state and action, "
            f"the rarest {counted(found.fewest, 'time')}",
        }
        sections.append(Facts(told, title="what the policy loses, by the true table"))
    for name, bins in (("ends", report.ends), ("rewards", report.rewards)):
        lines = [[f"{x.predicted:.4f}", f"{x.happened:.4f}", f"{x.count:,}"] for x in bins]
        title = f"{name}: calibration error {calibration_error(bins):.4f}"
        sections.append(Figures(["predicted", "happened", "steps"], lines, title=title))
    return sections
