"""The mixture of a training: which datasets it reads and by which weights, once the run's own dataset is known.

Pure but for the dataset rows that it is given. Promises: neither the order in which a recipe names datasets nor
the unit of their weights says anything.
"""

from collections.abc import Callable
from math import gcd

from tutti.chassis.errors import InvalidField
from tutti.contracts.tokenization.v1 import Dataset
from tutti.corpus.mixture import weights_of_epochs
from tutti.pipeline.recipe import MixturePart
from tutti.pipeline.stages import Result, Share


def shares(mixture: MixturePart, own: Result, row: Callable[[str], Dataset]) -> tuple[Share, ...]:
    """The run's own dataset, then the others by name. Raises InvalidField naming mixture.datasets.

    `row` gives a dataset by its name, of which there are no two with different tokenizers or contexts in a recipe that
    was accepted.
    """
    name = f"datasets/{own.content_digest.removeprefix('blake3:')}"
    if name in mixture.datasets:
        raise InvalidField(
            "mixture.datasets",
            seen=f"{name}, which is what this run made itself",
            expected="other datasets: give mixture.own what this one was given, and leave it out",
        )
    others = sorted(mixture.datasets)
    found = [row(each) for each in (name, *others)]
    amounts = [mixture.own, *(mixture.datasets[each] for each in others)]
    if mixture.by == "epochs":
        weights = weights_of_epochs([each.sequences for each in found], amounts)
    else:
        parts = [int(amount) for amount in amounts]
        weights = tuple(part // gcd(*parts) for part in parts)  # 2 of 4 reads what 1 of 2 reads
    results = [Result(each.name, each.manifest_key, each.content_digest) for each in found]
    return tuple(Share(result, weight) for result, weight in zip(results, weights, strict=True))
