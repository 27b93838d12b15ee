"""Programs: what the ranks of a job do. Each is one module; all share the loop, the step, checkpoints and recovery.

A new program is a module here, its entry below, and its name in `tutti.model.training.PROGRAMS`, where a training that
names another is refused.
"""

from collections.abc import Mapping
from typing import Any

from tutti.trainer.programs import pretrain
from tutti.trainer.programs.program import Program

PROGRAMS: Mapping[str, Program[Any]] = {each.name: each for each in (pretrain.PROGRAM,)}
