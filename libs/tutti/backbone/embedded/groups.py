"""Groups of the embedded log: who reads which partition, under which generation.

Promises: every partition of a subscribed topic has exactly one owner among the members; any change of members is a new
generation; a member learns of it at its next poll, and is refused until then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tutti.backbone.eventlog import TopicPartition


@dataclass
class Member:
    number: int
    topics: frozenset[str]
    polled_at: float


@dataclass
class Group:
    """Not thread-safe: the log guards it."""

    name: str
    generation: int = 0
    members: dict[int, Member] = field(default_factory=dict)
    assignment: dict[int, tuple[TopicPartition, ...]] = field(default_factory=dict)

    def rebalance(self, partitions: Mapping[str, int]) -> None:
        self.generation += 1
        self.assignment = assign({number: member.topics for number, member in self.members.items()}, partitions)

    def idle(self, since: float) -> list[int]:
        """The members that have not polled since then."""
        return [number for number, member in self.members.items() if member.polled_at < since]


def assign(
    members: Mapping[int, Iterable[str]], partitions: Mapping[str, int]
) -> dict[int, tuple[TopicPartition, ...]]:
    """Deal the partitions of each topic to its subscribers in turn; who is dealt first moves on from topic to topic."""
    dealt: dict[int, list[TopicPartition]] = {number: [] for number in members}
    turn = 0
    for topic in sorted({topic for topics in members.values() for topic in topics}):
        subscribers: Sequence[int] = sorted(number for number, topics in members.items() if topic in set(topics))
        for partition in range(partitions[topic]):
            dealt[subscribers[turn % len(subscribers)]].append(TopicPartition(topic, partition))
            turn += 1
    return {number: tuple(owned) for number, owned in dealt.items()}
