from hypothesis import given
from hypothesis import strategies as st

from tutti.backbone.embedded.groups import Group, Member, assign
from tutti.backbone.eventlog import TopicPartition

TOPICS = st.sampled_from(["a", "b", "c"])
MEMBERS = st.dictionaries(st.integers(1, 9), st.sets(TOPICS, min_size=1), min_size=1)
PARTITIONS = st.fixed_dictionaries({name: st.integers(1, 12) for name in "abc"})


@given(MEMBERS, PARTITIONS)
def test_each_partition_of_a_subscribed_topic_has_exactly_one_owner(
    members: dict[int, set[str]], partitions: dict[str, int]
) -> None:
    dealt = assign(members, partitions)
    owned = [at for ats in dealt.values() for at in ats]
    subscribed = {topic for topics in members.values() for topic in topics}
    assert sorted(owned) == sorted(TopicPartition(topic, n) for topic in subscribed for n in range(partitions[topic]))
    assert all(at.topic in members[number] for number, ats in dealt.items() for at in ats)


@given(st.integers(1, 12), PARTITIONS)
def test_members_with_equal_topics_own_equally_many(count: int, partitions: dict[str, int]) -> None:
    dealt = assign({number: {"a", "b", "c"} for number in range(count)}, partitions)
    sizes = [len(owned) for owned in dealt.values()]
    assert max(sizes) - min(sizes) <= 1


def test_every_rebalance_is_a_new_generation() -> None:
    group = Group("g", generation=7)
    group.members[1] = Member(1, frozenset({"a"}), polled_at=0)
    group.rebalance({"a": 2})
    group.rebalance({"a": 2})
    assert group.generation == 9
    assert group.idle(since=1) == [1]
    assert group.idle(since=0) == []
