"""Transformers that learn a world and act in it."""

from __future__ import annotations

from headway.data.config import DataConfig
from headway.data.environments import Grid, Rendered
from headway.models import DecisionConfig, ModelConfig, WorldConfig
from headway.models.observation import Codes, Numbers, Tokens
from headway.presets.preset import Preset
from headway.runs.config import RunConfig
from headway.tasks.decision_transformer import Deciding
from headway.tasks.world_model import WorldModel
from headway.tasks.world_model.learners import ProximalPolicy, ValueIteration
from headway.tasks.world_model.schedule import Round
from headway.training.config import TrainConfig
from headway.training.optimisers import AdamW
from headway.training.schedules import Cosine


def frozenlake() -> WorldConfig:
    """Sixteen places, four ways to go, ice."""
    observation = Tokens(levels=16)
    return WorldConfig(observation=observation, actions=4, width=32, heads=2, inner=64, window=1, policy=32)


def frozenlake_recipe(model: ModelConfig) -> RunConfig:
    """Minutes on two cores."""
    task = WorldModel(
        collect=(8000, 8000, 8000, 8000, 8000),
        round=Round(world=500, act=60),
        learner=ValueIteration(posterior=50),
        explore=0.1,  # so that no action of a state is known by its first visits alone
        length=1,
        windows="distinct",  # drawn ones are a second source of chance, as large as that of the lake
        context=0,
        act_rate=0.3,
    )
    return _run("FrozenLake-v1", task, model, batch_tokens=1024, learning_rate=1e-2)


def cartpole() -> WorldConfig:
    """Four numbers, two actions; the numbers at hand are all there is to know."""
    return WorldConfig(observation=Numbers(size=4), actions=2, layers=1, window=1)


def cartpole_recipe(model: ModelConfig) -> RunConfig:
    """Minutes on two cores, and fewer than 20,000 environment steps."""
    task = WorldModel(
        collect=(2000, 4000, 4000, 4000),
        round=Round(world=700, act=640),
        learner=ProximalPolicy(),
        length=1,
        dreams=256,
        horizon=32,
        context=0,
        discount=0.995,
        entropy=0.005,
        rare=5.0,  # a pole falls in one step of twenty or less
        final_policy="tried",  # a newer one may leave what was collected, where the model knows nothing
        act_rate=0.6,
    )
    return _run("CartPole-v1", task, model, batch_tokens=512, learning_rate=3e-3)


def minigrid() -> WorldConfig:
    """Seven by seven cells in sight, each a thing, a colour and a state."""
    observation = Tokens(parts=147, levels=11, least=0.02)
    return WorldConfig(observation=observation, actions=7, window=2, clock=100)


def minigrid_recipe(model: ModelConfig) -> RunConfig:
    """Minutes on two cores."""
    task = WorldModel(
        view=Grid(),
        collect=(4000, 1000, 1000, 1000),
        round=Round(world=300, act=320),
        learner=ProximalPolicy(),
        length=8,
        dreams=256,
        horizon=10,
        context=1,
        discount=0.9,
        entropy=0.01,
        final_policy="tried",  # of a newer one's way the model may have seen nothing, and imagines another reward
        restart_policy=True,  # what it does by habit in the first round's model it would never leave again
    )
    return _run("MiniGrid-Empty-5x5-v0", task, model, batch_tokens=512, learning_rate=2e-3)


def minigrid_pixels() -> WorldConfig:
    """The same world as a picture of five by five tiles, a learned code for each."""
    observation = Codes(image=40, patch=8, levels=32)
    return WorldConfig(observation=observation, actions=7, window=2, clock=100)


def minigrid_pixels_recipe(model: ModelConfig) -> RunConfig:
    """Minutes on two cores; the code is learned in every round, before the world."""
    task = WorldModel(
        view=Rendered(size=40),
        collect=(4000, 1500, 1500),
        round=Round(code=200, world=300, act=320),
        learner=ProximalPolicy(),
        length=8,
        dreams=256,
        horizon=10,
        context=1,
        discount=0.9,
        entropy=0.01,
        restart_policy=True,
    )
    return _run("MiniGrid-Empty-5x5-v0", task, model, batch_tokens=512, learning_rate=2e-3)


def tmaze() -> WorldConfig:
    """Five things to see, three ways to go, and a memory as long as the corridor."""
    return WorldConfig(
        observation=Tokens(levels=5),
        actions=3,
        width=32,
        heads=2,
        inner=64,
        window=16,
        policy=32,
        actor_reads="features",
    )


def tmaze_recipe(model: ModelConfig) -> RunConfig:
    """A minute on two cores."""
    task = WorldModel(
        collect=(6000, 2000, 2000),
        round=Round(world=600, act=320),
        learner=ProximalPolicy(),
        dreams=256,
        horizon=12,
        context=8,
        discount=0.95,
        entropy=0.01,
        act_rate=0.5,
    )
    return _run("headway/TMaze-v0", task, model, batch_tokens=1024, learning_rate=3e-3)


def tmaze_pixels() -> WorldConfig:
    """The same maze as a picture of three by three tiles, a learned code for each.

    It is twice as wide as for symbols: two codes of nine tell the sign, and at half the width it was not found.
    """
    return WorldConfig(
        observation=Codes(image=24, patch=8, levels=16),
        actions=3,
        window=16,
        policy=32,
        actor_reads="features",
    )


def tmaze_pixels_recipe(model: ModelConfig) -> RunConfig:
    """A minute on two cores."""
    task = WorldModel(
        view=Rendered(size=24),
        collect=(6000, 2000, 2000),
        round=Round(code=200, world=800, act=320),
        learner=ProximalPolicy(),
        dreams=256,
        horizon=12,
        context=8,
        discount=0.95,
        entropy=0.01,
        act_rate=0.5,
    )
    return _run("headway/TMaze-v0", task, model, batch_tokens=1024, learning_rate=3e-3)


def _run(
    environment: str, task: WorldModel, model: ModelConfig, *, batch_tokens: int, learning_rate: float
) -> RunConfig:
    steps = task.round.steps * len(task.collect)
    if task.final_policy == "tried":
        steps -= task.round.act  # the last round tries a policy, and learns none
    train = TrainConfig(
        steps=steps,
        batch_tokens=batch_tokens,
        learning_rate=learning_rate,
        optimiser=AdamW(decay=0.01),
        evaluate_every=task.round.steps,
        save_every=task.round.steps,
        average=1,  # the last one: what a policy is worth is not known before it is tried
        keep=1,
    )
    return RunConfig(task=task, data=DataConfig(spec=environment), model=model, train=train)


def decision() -> DecisionConfig:
    """CartPole's four numbers and two actions, half the paper's width and context."""
    return DecisionConfig(observation=Numbers(size=4), actions=2, context=10, width=64, layers=2)


def decision_recipe(model: ModelConfig) -> RunConfig:
    """A log of CartPole by policies drawn at random, in minutes on two cores."""
    train = TrainConfig(
        steps=1500,
        batch_tokens=1920,
        learning_rate=1e-3,
        optimiser=AdamW(decay=1e-4),
        schedule=Cosine(warmup=100),
        clip=0.25,
        evaluate_every=500,
        save_every=500,
    )
    return RunConfig(task=Deciding(), data=DataConfig(spec="CartPole-v1"), model=model, train=train)


LOOP = (
    "one token a step, the observation's parts in one embedding; IRIS writes 16 tokens a frame and an action",
    "the parts of a next observation are drawn independently of each other, given the past",
    "reward and end are read off the next observation that was drawn, a reward within the range of those collected",
)
BLIND = "the actor reads one observation, no memory"
OFTEN = "the policy learns from a rollout sixteen times, with clipped ratios (Schulman et al. 2017); IRIS's once"

WORLDS = (
    Preset(
        name="world-frozenlake",
        task="world",
        source="Micheli et al. 2023, IRIS: its loop, at a size for a laptop",
        parameters=23_800,
        departures=(*LOOP, BLIND, "the policy is planned in the learned table, not learned in rollouts"),
        config=frozenlake,
        run=frozenlake_recipe,
    ),
    Preset(
        name="world-cartpole",
        task="world",
        source="Micheli et al. 2023, IRIS: its loop, at a size for a laptop",
        parameters=52_174,
        departures=(*LOOP, BLIND, OFTEN, "numbers move by a Gaussian each, without a code, and given one step alone"),
        config=cartpole,
        run=cartpole_recipe,
    ),
    Preset(
        name="world-minigrid",
        task="world",
        source="Micheli et al. 2023, IRIS: its loop, at a size for a laptop",
        parameters=500_444,
        departures=(
            *LOOP,
            BLIND,
            OFTEN,
            "the model knows how many steps are gone, since the reward depends on it",
            "actor and critic begin anew in each round",
        ),
        config=minigrid,
        run=minigrid_recipe,
    ),
    Preset(
        name="world-minigrid-pixels",
        task="world",
        source="Micheli et al. 2023, IRIS: its loop, at a size for a laptop",
        parameters=344_699,
        departures=(
            *LOOP,
            BLIND,
            OFTEN,
            "each patch has its own code, without a look at its neighbours; no perceptual loss",
            "the model knows how many steps are gone, since the reward depends on it",
            "actor and critic begin anew in each round",
        ),
        config=minigrid_pixels,
        run=minigrid_pixels_recipe,
    ),
    Preset(
        name="world-tmaze",
        task="world",
        source="Micheli et al. 2023, IRIS: its loop, at a size for a laptop; the maze is that of Bakker 2002",
        parameters=24_364,
        departures=(*LOOP, OFTEN, "the actor reads the model's features of the step before, and one observation"),
        config=tmaze,
        run=tmaze_recipe,
    ),
    Preset(
        name="world-tmaze-pixels",
        task="world",
        source="Micheli et al. 2023, IRIS: its loop, at a size for a laptop; the maze is that of Bakker 2002",
        parameters=163_815,
        departures=(
            *LOOP,
            OFTEN,
            "each patch has its own code, without a look at its neighbours; no perceptual loss",
            "the actor reads the model's features of the step before, and one observation",
        ),
        config=tmaze_pixels,
        run=tmaze_pixels_recipe,
    ),
    Preset(
        name="decision-cartpole",
        task="deciding",
        source="Chen et al. 2021, Decision Transformer: no world model, actions asked for by their return",
        parameters=102_722,
        departures=(
            "half the width, context and all but one of the layers, for a laptop; the rate is higher, with a cosine",
            "positions are of tokens in the window; the paper adds one of the step of the episode to all three",
            "the likeliest action is taken; the paper draws from the softmax in Atari games, and regresses in control",
            "the log is made: each episode by another policy drawn at random",
        ),
        config=decision,
        run=decision_recipe,
    ),
)
