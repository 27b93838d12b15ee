"""Settings among the arguments of a process, and the arguments that say where its data and settings are.

Promises: none of them is secret, because every user of the machine can read the arguments of a process; a directory
that an argument or the environment names is never one that was found.
"""

import argparse
import os
from pathlib import Path

from tutti.chassis.config.datadir import DEFAULT, named
from tutti.chassis.config.settings import ENVIRONMENT_PREFIX, secret_in


def add_places(parser: argparse.ArgumentParser) -> None:
    """Add --data-dir and --config, whose defaults are in the environment."""
    parser.add_argument("--data-dir", type=named, default=os.environ.get("TUTTI_DATA_DIR") or DEFAULT)
    parser.add_argument(
        "--config", type=absolute, default=os.environ.get("TUTTI_CONFIG"), help="a TOML file of settings"
    )


def absolute(path: str) -> Path:
    """Return a path that somebody gave, as seen from the root."""
    return Path(path).absolute()


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add --set, which may be repeated."""
    parser.add_argument(
        "--set", action="append", default=[], type=public, metavar="KEY=VALUE",
        help="a setting that is not secret; may be repeated",
    )  # fmt: skip


def public(text: str) -> str:
    """Return an override as it was given. Raises ArgumentTypeError for a secret."""
    if key := secret_in(text):
        variable = f"{ENVIRONMENT_PREFIX}{key.upper().replace('.', '__')}"
        raise argparse.ArgumentTypeError(
            f"the value of {key} is secret, and every user of this machine can read the arguments of a process: "
            f"set {variable}, or write it to the settings file (mode 0600)"
        )
    return text
