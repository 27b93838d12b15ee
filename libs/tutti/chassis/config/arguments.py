"""Settings among the arguments of a process.

Promises: none of them is secret, because every user of the machine can read the arguments of a process.
"""

import argparse

from tutti.chassis.config.settings import ENVIRONMENT_PREFIX, secret_in


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
