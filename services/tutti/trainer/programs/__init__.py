"""Programs: what the ranks of a job do. Each is one module; all share the loop, the step, checkpoints and recovery.

A new program is a module here that holds it as `PROGRAM`, and a module of `tutti.model.programs` with the record of its
parameters; a training that names another is refused.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from tutti.trainer.programs.program import Program


def _every() -> Mapping[str, Program[Any]]:
    """Raises TypeError for a module without a program."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name == "program" or module.name.endswith("_test"):
            continue
        program = getattr(importlib.import_module(f"{__name__}.{module.name}"), "PROGRAM", None)
        if not isinstance(program, Program):
            raise TypeError(f"{__name__}.{module.name} has PROGRAM {program!r}, expected a Program")
        found[program.name] = program
    return found


PROGRAMS = _every()
