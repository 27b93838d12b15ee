"""Commands for a data directory, ready to be pasted."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from tutti.chassis.config.datadir import is_found


def typed(command: str, data_dir: Path) -> str:
    """A command as it is typed for a data directory."""
    return command if is_found(data_dir) else f"{command} --data-dir {shlex.quote(str(data_dir))}"


def sampling(checkpoint: str, data_dir: Path) -> str:
    """Return the command that lets a checkpoint continue a text, ready to be pasted."""
    return typed(f'tutti sample {checkpoint} --prompt "The"', data_dir)


def tries(models: Sequence[tuple[str, str]], data_dir: Path) -> list[tuple[str, str]]:
    """Return a label and the command to sample each of a run's models, given as stage and checkpoint."""
    alone = len(models) == 1
    return [("to try it" if alone else f"to try {stage}", sampling(name, data_dir)) for stage, name in models]
