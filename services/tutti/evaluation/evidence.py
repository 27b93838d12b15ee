"""The evidence of a release: what it relies on, and whether that still holds.

Promises: evidence is found by asking owners and walking up the parents that resources declare, so it is complete when a
release is made and waits for no event.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.chassis.errors import NotFound
from tutti.chassis.rpc import kinds
from tutti.contracts.annotation.v1 import Campaign, Preferences
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, Checkpoint, CheckpointState
from tutti.contracts.evaluation.v1 import Comparison

Find = Callable[[str], Any]
"""The resource of a name, by its owner. Raises NotFound and other problems."""

WALKED = ("comparisons", "samples", "checkpoints", "jobs", "preferences")
"""Kinds through which judgements reach a policy; what is above them, such as documents, is no evidence of a gate.

A campaign ends the walk: judgements of answers stay valid when the policy that wrote the answers does not.
"""


@dataclass(frozen=True, slots=True, order=True)
class Item:
    """A resource that is relied on, and the digest of its content."""

    resource: str
    digest: str


def gather(find: Find, comparisons: Sequence[str], checkpoint: str) -> list[Item]:
    """Return what a release of a checkpoint by these comparisons relies on, in name order.

    That is the checkpoint, the comparisons and what they read, and every set of judgements that a model behind them
    learned from. Raises NotFound where an ancestor is gone.
    """
    return _items(
        find, {checkpoint, *comparisons, *(parent for each in comparisons for parent in _parents(find(each)))}
    )


def behind(find: Find, comparison: Comparison) -> list[Item]:
    """Return what a comparison relies on, in name order, as it was when the comparison was made. Raises NotFound."""
    samples = (comparison.spec.baseline, comparison.spec.candidate)
    read = {each.name: each.content_digest for each in samples}
    items = [
        Item(each.resource, read.get(each.resource) or each.digest) for each in _items(find, set(_parents(comparison)))
    ]
    if comparison.spec.HasField("judged"):
        items.append(Item(comparison.spec.judged.campaign, comparison.spec.judged.content_digest))
    return sorted(set(items))


def _items(find: Find, direct: set[str]) -> list[Item]:
    """The resources of `direct`, and every set of judgements that a model behind them learned from."""
    items, seen, open_ = set[Item](), set(direct), sorted(direct)
    while open_:
        resource = find(open_.pop(0))
        if resource.name in direct and not isinstance(resource, Campaign):
            items.add(Item(resource.name, kinds.kind_of(type(resource)).content_digest(resource)))
        if isinstance(resource, Preferences):
            items.add(Item(resource.spec.campaign, resource.spec.content_digest))
            items.update(Item(each.campaign, each.content_digest) for each in resource.spec.others)
        if isinstance(resource, Comparison) and resource.spec.HasField("judged"):
            items.add(Item(resource.spec.judged.campaign, resource.spec.judged.content_digest))
        for parent in _parents(resource):
            if parent not in seen:
                seen.add(parent)
                open_.append(parent)
    return sorted(items)


def change(find: Find, items: Sequence[Item]) -> str:
    """Return what of the evidence does not hold any more, in words; "" where all of it does. Raises Problem."""
    for item in items:
        try:
            resource = find(item.resource)
        except NotFound:
            return f"{item.resource} is gone"
        if isinstance(resource, Checkpoint) and resource.state != CHECKPOINT_STATE_COMMITTED:
            state = CheckpointState.Name(resource.state).removeprefix("CHECKPOINT_STATE_").lower()
            return f"{item.resource} is {state}"
        if isinstance(resource, Checkpoint) and resource.suspect:
            return f"{item.resource} is suspect: {resource.suspect}"
        seen = kinds.kind_of(type(resource)).content_digest(resource)
        if seen != item.digest:
            why = "; an annotator was retracted" if item.resource.startswith("campaigns/") else ""
            return f"{item.resource} has the content {seen or 'nothing'}, expected {item.digest}{why}"
    return ""


def _parents(resource: Any) -> Iterator[str]:
    """The ancestors that are walked to; the earlier checkpoints of a job say no more than the job."""
    for parent in kinds.kind_of(type(resource)).parents:
        if isinstance(resource, Checkpoint) and parent.field != "job":
            continue
        for name in parent.names(resource):
            if name.partition("/")[0] in WALKED:
                yield name
