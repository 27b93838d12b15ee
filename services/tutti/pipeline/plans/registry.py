"""The kinds of stages that there are: one for each module of `tutti.pipeline.stages`.

Promises: a kind is known by its name; a module that defines none is refused at start.
"""

import importlib
import pkgutil
from functools import cache

from tutti.pipeline import stages
from tutti.pipeline.definitions.definition import StageDef


@cache
def definitions() -> dict[str, StageDef]:
    """Every kind of stage by its name. Raises TypeError for a module that defines none."""
    found = {}
    for module in pkgutil.iter_modules(stages.__path__):
        if module.name.endswith("_test"):
            continue
        stage = getattr(importlib.import_module(f"{stages.__name__}.{module.name}"), "STAGE", None)
        if not isinstance(stage, StageDef):
            raise TypeError(f"{stages.__name__}.{module.name} has STAGE {stage!r}, expected a StageDef")
        found[stage.name] = stage
    return found
