"""The memory that a training process needs, against the memory that there is.

Promises: a recipe is refused only for a lower bound of its needs, and the refusal names both numbers.
"""

import re

import click

from tutti.chassis.rpc.kinds import kind_of
from tutti.cli.failures import MISUSE, Failure
from tutti.client import Client
from tutti.contracts.pipeline.v1 import CheckRecipeResponse
from tutti.contracts.scheduler.v1 import Node
from tutti.pipeline.commands.sizes import size

UNITS: dict[str, int] = {"": 1} | {f"{prefix}B": 1000**n for n, prefix in enumerate(("", "k", "M", "G", "T"))}
UNITS |= {f"{prefix}iB": 1024**n for n, prefix in enumerate(("K", "M", "G", "T"), 1)}
BYTES = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)")


class Memory(click.ParamType[int]):
    """A number of bytes, such as 80GB or 64GiB."""

    name = "bytes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = BYTES.fullmatch(str(value).strip())
        unit = next((unit for unit in UNITS if found and unit.lower() == found[2].lower()), None)
        if found is None or unit is None or not (count := round(float(found[1]) * UNITS[unit])):
            self.fail(f"{value!r}: expected a number of bytes above 0, such as 80GB or 64GiB", param, ctx)
        return count


def largest(client: Client) -> tuple[int, str]:
    """The memory of the largest registered node in bytes, and its name; 0 and "" where that of a node is not known."""
    nodes = [node for page in kind_of(Node).pages(client.channel("scheduler")) for node in page]
    if not all(node.memory_bytes for node in nodes):
        return 0, ""
    return max(((node.memory_bytes, node.name) for node in nodes), default=(0, ""))


def check(found: CheckRecipeResponse, available: int, where: str) -> None:
    """Refuse a plan with a stage of which a training process does not fit into what is available `where`; 0: unknown.

    Raises Failure.
    """
    runs = {stage.name for stage in found.stages if not stage.reused}
    over = [each for each in found.forecasts if each.stage in runs and 0 < available < each.rank_memory_bytes]
    if over:
        needs = ", ".join(f"{each.stage} needs at least {size(each.rank_memory_bytes)}" for each in over)
        raise Failure(
            f"a training process of {needs} of memory, and {where} has {size(available)}: set train.shard=parameters "
            "with more train.ranks, or fewer train.rows, or a smaller model",
            MISUSE,
        )
