"""The log of a decision transformer: a run's episodes, or ones played at random."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import cast

from headway.checked_json import JsonFields
from headway.counts import counted
from headway.data.environments import Environment
from headway.data.episodes import EPISODES, FACTS, Episodes, concatenate, read_episodes, write_episodes
from headway.documents import read_json
from headway.errors import ConfigError, DataError
from headway.models.decision_transformer import DecisionConfig
from headway.models.observation import Codes
from headway.tasks.base import DataRequest, Prepared
from headway.tasks.decision_transformer.config import Deciding
from headway.tasks.decision_transformer.log import logged
from headway.tasks.decision_transformer.training import DecisionTraining
from headway.tasks.observation import fit_observation

LOG = "log"  # the folder of a run's logged episodes


def prepare(config: Deciding, request: DataRequest) -> Prepared:
    """The task on a run's log, which is made first if missing, and the sizes of its environment.

    The data's spec is an environment, or a run whose episodes are the log. Raises ConfigError for other data than the
    run's own.
    """
    request.expect_own()
    spec, model = request.data.spec, cast(DecisionConfig, request.model)
    kept = request.folder / EPISODES / LOG
    if Path(spec).is_dir():
        parts, name = _of_run(Path(spec))
    else:
        name = spec
        if not kept.exists() and request.reads_only:
            raise DataError(f"{request.folder}: the episodes it was trained on are missing")
        if not kept.exists():
            found = logged(config, partial(Environment, name, config.view), request.seed)
            write_episodes(kept, found, {"environment": name, "seed": request.seed})
        parts = [read_episodes(kept)]
    environment = Environment(name, config.view)
    observation = fit_observation(model.observation, environment.shape)
    if isinstance(observation, Codes):
        raise ConfigError(f"{name} shows pictures, allowed for a decision transformer: tokens, numbers")
    training = DecisionTraining(
        config, name, concatenate(parts), length=model.context, batch_tokens=request.batch_tokens, seed=request.seed
    )
    sizes: dict[str, object] = {"observation": observation, "actions": environment.actions}
    episodes = training.episodes
    facts = {
        "environment": f"{name}, {environment.actions} actions",
        "episodes": f"{len(episodes):,} of {counted(episodes.steps, 'environment step')}, every tenth held out",
    }
    return Prepared(training=training, model_overrides=sizes, facts=facts)


def _of_run(run: Path) -> tuple[list[Episodes], str]:
    """The episodes a run collected, and their environment. Raises DataError for a run without episodes."""
    folders = sorted((run / EPISODES).glob("*"))
    if not folders:
        raise DataError(f"{run}: no episodes there; allowed: an environment's name, or a run that collected some")
    facts = JsonFields(read_json(folders[0] / FACTS), where=str(folders[0] / FACTS))
    return [read_episodes(each) for each in folders], facts.text("environment")
