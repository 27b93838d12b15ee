"""The mixture of a training: which datasets it reads and by which weights, once the run's own dataset is known.

Promises: neither the order in which a recipe names datasets nor the unit of their weights says anything.
"""

from math import gcd

from tutti.chassis.errors import InvalidField, NotFound
from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.service import Host
from tutti.contracts.tokenization.v1 import Dataset
from tutti.corpus.tokens.mixture import weights_of_epochs
from tutti.pipeline.recipes.sections import MixturePart
from tutti.pipeline.recipes.values import Result


def weighted(mixture: MixturePart, own: Result, host: Host) -> list[Result]:
    """The run's own dataset, then the others by name, each with its weight. Raises InvalidField.

    A recipe that was accepted names no two datasets with different contexts.
    """
    name = f"datasets/{own.content_digest.removeprefix('blake3:')}"
    if name in mixture.datasets:
        raise InvalidField(
            "mixture.datasets",
            seen=f"{name}, which is what this run made itself",
            expected="other datasets: give mixture.own what this one was given, and leave it out",
        )
    others = sorted(mixture.datasets)
    found = [_row(host, each) for each in (name, *others)]
    for each in found:
        if each.tokenizer != found[0].tokenizer:
            raise InvalidField(
                "mixture.datasets",
                seen=f"{each.name} with the tokenizer {each.tokenizer}",
                expected=f"datasets with the tokenizer of this run's own, {found[0].tokenizer}; make it again with "
                "that one: tokenizer.of",
            )
    amounts = [mixture.own, *(mixture.datasets[each] for each in others)]
    if mixture.by == "epochs":
        weights = weights_of_epochs([each.sequences for each in found], amounts)
    else:
        parts = [int(amount) for amount in amounts]
        weights = tuple(part // gcd(*parts) for part in parts)  # 2 of 4 reads what 1 of 2 reads
    return [
        Result(each.name, each.manifest_key, each.content_digest, weight=weight)
        for each, weight in zip(found, weights, strict=True)
    ]


def _row(host: Host, name: str) -> Dataset:
    try:
        found: Dataset = kind_of(Dataset).get(host.channel("tokenization"), name)
    except NotFound as problem:
        raise InvalidField("mixture.datasets", seen=name, expected="datasets that are still there") from problem
    return found
