"""A transformer that interacts with the world: it learns a model of FrozenLake, and a policy in that model alone.

The decks ask "what if transformers could interact with the world?". The answer here: episodes are collected, a causal
transformer learns what an action does, a policy is learned in the model, and the real environment says what it is
worth. One seed is not a result: `--repeats 10` trains ten, and gives their interquartile mean and the probability that
a run is better than Q-learning with the same environment steps (Agarwal et al. 2021).
"""

from __future__ import annotations

import math
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from headway.config import override, positive
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, progress
from headway.plots import lab_figures as draw
from headway.presets import preset
from headway.runs.config import RunConfig
from headway.runs.seeds import seed_configs, train_and_play
from headway.tasks.world_model.comparison import WorldComparison

# The least return of a run; FrozenLake's optimum is 0.744, MiniGrid's 0.955, the T-maze's 1, and CartPole ends at 500.
BOUNDS = {
    "world-frozenlake": 0.70,
    "world-cartpole": 475.0,
    "world-minigrid": 0.93,
    "world-minigrid-pixels": 0.93,
    "world-tmaze": 0.90,
    "world-tmaze-pixels": 0.90,
}
QUICK = {"task.collect": (12000, 8000), "task.round.world": 350, "task.round.act": 30, "train.steps": 760}
QUICK_BOUND, QUICK_EPISODES = 0.25, 200  # a random policy earns 0.014


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldParameters:
    """Which world, how many runs, how they are played."""

    preset: str = "world-frozenlake"  # or world-cartpole, world-minigrid, world-tmaze, the latter two also with -pixels
    repeats: int = 1  # runs, with seeds from --seed on
    beside: int = 2  # runs at a time
    episodes: int = 500  # fresh ones that a run plays
    runs: str = ""  # a folder that keeps the runs; a finished one is not trained again
    settings: tuple[str, ...] = ()  # config keys of the preset

    def __post_init__(self) -> None:
        for name in ("repeats", "beside", "episodes"):
            positive(f"--{name}", getattr(self, name))


def configs_of(parameters: WorldParameters, seed: int, quick: bool) -> dict[int, RunConfig]:
    """The config of each run by its seed. Raises ConfigError for a preset that is no world model."""
    changes: dict[str, object] = {}
    for setting in parameters.settings:
        key, _, value = setting.partition("=")
        changes[key] = value
    seeds = range(seed, seed + (1 if quick else parameters.repeats))
    found = seed_configs(parameters.preset, preset(parameters.preset).recipe(), seeds, changes)
    return {each: override(config, QUICK) for each, config in found.items()} if quick else found


def run(parameters: WorldParameters, seed: int, quick: bool) -> LabOutcome:
    """Train, play, compare with Q-learning on the same environment steps."""
    configs = configs_of(parameters, seed, quick)
    steps = sum(config.train.steps for config in configs.values())
    with ExitStack() as stack:
        folder = Path(parameters.runs or stack.enter_context(tempfile.TemporaryDirectory()))
        played = train_and_play(
            configs,
            folder,
            beside=parameters.beside,
            episodes=QUICK_EPISODES if quick else parameters.episodes,
            told=lambda done: progress("training", done, steps),
        )
    found = WorldComparison(played)
    bound = QUICK_BOUND if quick else BOUNDS.get(parameters.preset, math.nan)
    return LabOutcome(
        tables=[_scores(found, parameters.preset), _aggregates(found)],
        figures=[_figure(found, bound)],
        checks=[at_least("return of the worst run", min(found.scores("mean_return")), bound)],
        notes=[
            "The environment serves to collect episodes and to play at the end; the policy is learned in the model."
        ],
    )


def _scores(found: WorldComparison, name: str) -> LabTable:
    header = ("seed", *found.header[1:])
    return LabTable(title=f"{name}: returns of fresh episodes", header=header, rows=found.rows())


def _aggregates(found: WorldComparison) -> LabTable:
    return LabTable(
        title="over seeds",
        header=("figure", "value", "from", "to"),
        rows=[(name, each.value, each.low, each.high) for name, each in found.estimates.items()],
        note="95 % intervals by a stratified bootstrap over seeds; with one run there is no interval.",
    )


def _figure(found: WorldComparison, bound: float) -> LabFigure:
    figure, (axes,) = draw.panels(1)
    seeds = [int(seed) for seed in found.played]
    ours, theirs, dreamt = (found.scores(key) for key in ("mean_return", "model_free_return", "imagined_return"))
    axes.bar([seed - 0.2 for seed in seeds], ours, 0.36, color=draw.BLUE, label="learned in the model, played for real")
    axes.bar(
        [seed + 0.2 for seed in seeds], theirs, 0.36, color=draw.ORANGE, label="Q-learning, same environment steps"
    )
    axes.scatter(seeds, dreamt, color=draw.INK, marker="_", s=220, label="what the model says", zorder=3)
    axes.set_xticks(seeds)
    axes.set_xlim(seeds[0] - 1, seeds[-1] + 1)
    axes.set_ylim(0, 1.5 * max(*ours, *theirs, 0.0 if math.isnan(bound) else bound))  # room for the legend
    draw.reference(axes, bound, "bound")
    draw.style(axes, "Return by seed", "seed", "mean return of fresh episodes", legend="upper right")
    return LabFigure(
        alt=f"Bars of the return of each seed: {', '.join(f'{each:.3g}' for each in ours)}; of Q-learning on the same "
        f"environment steps: {', '.join(f'{each:.3g}' for each in theirs)}.",
        figure=figure,
    )


LAB = Lab(
    name="world",
    chapter=10,
    title="A world learned, and acted in",
    claim="A policy learned in a transformer's model of FrozenLake alone comes near the optimum of the real lake.",
    slides=(Slide("001", "World 64"),),
    parameters=WorldParameters,
    run=run,
    mechanism=("configs_of",),
    exercise=Exercise(
        function="headway.tasks.world_model.planning:MarkovTable.value_iteration",
        task="The value of an action is its expected reward (self.gains) plus discount times the expected value"
        " of where it leads (self.goes_on @ values); the value of a state is that of its best action. Repeat"
        " until no value moves by SETTLED.",
        hints=(
            "Begin with values of 0, one for each state; at most SWEEPS sweeps.",
            "found = gains + discount · goes_on @ values is (S, A); the best of each state is its max over"
            " the actions.",
            "Return found, the values of actions, not those of states.",
        ),
        bugs=(
            PlantedBug(
                right="found.max(-1)",
                wrong="found.min(-1)",
                fails="return of the worst run",
                hint="What is a state worth?",
            ),
        ),
    ),
)
