"""World models: learn an environment, act in imagination, play in the real one."""

from headway.tasks.world_model.config import WorldModel

__all__ = ["WorldModel"]
