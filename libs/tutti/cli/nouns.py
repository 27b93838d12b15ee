"""Nouns: the kinds of resources that have a group of commands of their own."""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files

from tutti.chassis.rpc import kinds
from tutti.chassis.rpc.kinds import Kind

NOUNS: tuple[Kind, ...] = tuple(kind for kind in kinds.every_kind() if kind.about)
"""Those with a command group of their own."""
BY_PLURAL = {kind.plural: kind for kind in NOUNS}
FILTERS: Mapping[str, Sequence[str]] = json.loads(files("tutti.cli").joinpath("filters.json").read_text("utf-8"))
"""The fields that a list can be filtered by, by kind; `tools/pages.py` writes the file from the services."""
