"""Nouns: the kinds of resources that have a group of commands of their own."""

from tutti.chassis.rpc import kinds
from tutti.chassis.rpc.kinds import Kind

NOUNS: tuple[Kind, ...] = tuple(kind for kind in kinds.every_kind() if kind.about)
"""Those with a command group of their own."""
BY_PLURAL = {kind.plural: kind for kind in NOUNS}
