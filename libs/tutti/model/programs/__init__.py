"""The parameters of programs: one module for each program that has some, with its record.

Promises: a program is named as its module; the record of `x` is `XParameters`, a part of the training that names it.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import ModuleType

from tutti.model.spec import Recorded

PRETRAIN = "pretrain"
"""The program of a training that names none; it has no parameters of its own."""


def records() -> Mapping[str, type[Recorded] | None]:
    """Return the record of each program's parameters by its name; None for a program without parameters.

    Raises TypeError for a module without its record.
    """
    found: dict[str, type[Recorded] | None] = {PRETRAIN: None}
    for name, module in _modules().items():
        record = getattr(module, f"{name.capitalize()}Parameters", None)
        if not (isinstance(record, type) and issubclass(record, Recorded)):
            raise TypeError(f"{module.__name__} has no record {name.capitalize()}Parameters")
        found[name] = record
    return found


@cache
def _modules() -> Mapping[str, ModuleType]:
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.endswith("_test")]
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}
