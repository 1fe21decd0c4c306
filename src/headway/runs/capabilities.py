"""What a run can do, for `headway info`, messages and documentation."""

from __future__ import annotations

from headway.runs.config import RunConfig


def capabilities(config: RunConfig) -> list[str]:
    """The commands that work on a run of this config: ["evaluate", "translate", …].

    A task says it by its method `can`; [] where it does not say.
    """
    # The only place that asks. When tasks have a pipeline class, this becomes `config.task.pipeline_class.can()`.
    can = getattr(config.task, "can", None)
    return list(can()) if callable(can) else []
