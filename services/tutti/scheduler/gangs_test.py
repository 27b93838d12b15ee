"""Placement: all or none, few nodes, the same every time."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.errors import InvalidField
from tutti.chassis.events.event import MAX_PAYLOAD_BYTES
from tutti.contracts.common.v1 import Shape
from tutti.contracts.scheduler.v1 import (
    NODE_STATE_DRAINING,
    NODE_STATE_LEFT,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    Assignment,
    JobSpec,
    MixedDataset,
    Node,
)
from tutti.scheduler.gangs import (
    ASSIGNMENT_BYTES,
    GROWTH_BYTES,
    MAX_ADDRESS_BYTES,
    MAX_DEVICE_BYTES,
    MAX_SLOTS,
    MAX_SPEC_BYTES,
    Room,
    Short,
    capacity,
    check_size,
    is_excluded,
    is_full,
    node_words,
    place,
    registered,
    room_of,
)
from tutti.scheduler.queue import Waiting, ahead_of, waits_for
from tutti.scheduler.topology import fastest

ROOMS = st.lists(st.integers(0, 8), max_size=8).map(
    lambda sizes: [Room(f"nodes/{index}", ("cpu",) * size) for index, size in enumerate(sizes)]
)


@given(ROOMS, st.integers(1, 24), st.randoms())
def test_a_gang_is_whole_or_not_at_all_and_never_takes_more_than_is_free(rooms, ranks, random) -> None:  # type: ignore[no-untyped-def]
    found = place(ranks, rooms)
    free = sum(len(room.free) for room in rooms)
    if ranks > free:
        assert found == Short(ranks - free)
        return
    assert not isinstance(found, Short)
    assert [seat.rank for seat in found] == list(range(ranks))
    taken = Counter(seat.node for seat in found)
    assert all(taken[room.node] <= len(room.free) for room in rooms)
    shuffled = list(rooms)
    random.shuffle(shuffled)
    assert place(ranks, shuffled) == found


@given(ROOMS, st.integers(1, 24))
def test_no_placement_needs_fewer_nodes(rooms: list[Room], ranks: int) -> None:
    found = place(ranks, rooms)
    if isinstance(found, Short):
        return
    sizes = sorted((len(room.free) for room in rooms), reverse=True)
    least = next(count for count in range(1, len(sizes) + 1) if sum(sizes[:count]) >= ranks)
    assert len({seat.node for seat in found}) == least


@given(ROOMS, st.integers(1, 24))
def test_ranks_of_a_node_are_consecutive(rooms: list[Room], ranks: int) -> None:
    found = place(ranks, rooms)
    if isinstance(found, Short):
        return
    nodes = [seat.node for seat in found]
    changes = sum(1 for before, after in itertools.pairwise(nodes) if before != after)
    assert changes == len(set(nodes)) - 1


def test_between_equal_nodes_the_familiar_one_is_kept() -> None:
    rooms = [Room("nodes/a", ("cpu",)), Room("nodes/b", ("cpu",))]
    (seat,) = place(1, rooms, {"nodes/b"})  # type: ignore[misc]
    assert seat.node == "nodes/b"


def test_a_gang_has_one_kernel_signature_and_keeps_it() -> None:
    rooms = [
        Room("nodes/a", ("cpu",), "avx2"),
        Room("nodes/b", ("cpu",) * 2, "avx512"),
        Room("nodes/c", ("cpu",), "avx2"),
    ]
    assert place(3, rooms) == Short(1)
    assert {seat.node for seat in place(2, rooms)} == {"nodes/a", "nodes/c"}  # type: ignore[union-attr]
    before = {"nodes/b"}
    assert {seat.node for seat in place(2, rooms, before)} == {"nodes/b"}  # type: ignore[union-attr]


@given(ROOMS, st.integers(1, 24), st.data())
def test_a_node_to_avoid_is_used_only_if_the_gang_does_not_fit_without_it(
    rooms: list[Room], ranks: int, data: st.DataObject
) -> None:
    avoid = data.draw(st.permutations([room.node for room in rooms])) if rooms else []
    avoid = avoid[: len(avoid) // 2]
    found = place(ranks, rooms, doubtful=avoid)
    if isinstance(found, Short):
        assert found == place(ranks, rooms)
        return
    used = {seat.node for seat in found} & set(avoid)
    free = {room.node: len(room.free) for room in rooms}
    for node in used:
        others = sum(free[each] for each in free if each not in avoid or each in used - {node})
        assert others < ranks
    taken = Counter(seat.node for seat in found)
    assert sum(taken.values()) == ranks
    assert all(taken[node] <= free[node] for node in taken)


@pytest.mark.parametrize(
    ("ranks", "used"), [(3, "s"), (5, "as"), (8, "b"), (11, "bs"), (12, "abs"), (16, "bc"), (21, "abcs")]
)
def test_the_first_doubtful_nodes_are_used_rather_than_the_last_and_few(ranks: int, used: str) -> None:
    sizes = {"s": 3, "a": 2, "b": 8, "c": 8}
    found = place(ranks, [Room(name, ("cpu",) * size) for name, size in sizes.items()], doubtful=["a", "b", "c"])
    assert {seat.node for seat in found} == set(used)  # type: ignore[union-attr]


def test_avoiding_a_node_does_not_change_the_kernel_signature_of_a_job() -> None:
    rooms = [Room("nodes/a", ("cpu",), "avx2"), Room("nodes/b", ("cpu",), "avx512")]
    (kept,) = place(1, rooms, {"nodes/a"}, ["nodes/a"])  # type: ignore[misc]
    (first,) = place(1, rooms, doubtful=["nodes/a"])  # type: ignore[misc]
    assert (kept.node, first.node) == ("nodes/a", "nodes/b")


def test_the_tightest_room_is_taken_so_that_large_ones_stay_whole() -> None:
    rooms = [Room("nodes/a", ("cpu",) * 8), Room("nodes/b", ("cpu",) * 2)]
    assert {seat.node for seat in place(2, rooms)} == {"nodes/b"}  # type: ignore[union-attr]


def test_devices_are_shared_out_evenly_and_used_ones_left_alone() -> None:
    node = Node(name="nodes/a", state=NODE_STATE_READY, slots=4, devices=["cuda:0", "cuda:1"])
    node.assignments.append(Assignment(job="jobs/a", epoch=1, ranks=[0], devices=["cuda:0"]))
    assert room_of(node).free == ("cuda:0", "cuda:1", "cuda:1")


@given(st.integers(1, 9), st.integers(0, 4), st.data())
def test_the_free_slots_of_a_node_are_those_that_no_assignment_uses(
    slots: int, devices: int, data: st.DataObject
) -> None:
    names = [f"cuda:{number}" for number in range(min(devices, slots))]
    node = Node(name="nodes/a", state=NODE_STATE_READY, slots=slots, devices=names)
    every = Counter(room_of(node).free)
    assert sum(every.values()) == slots
    assert set(every) == set(names or ["cpu"])
    assert max(every.values()) - min(every.values()) <= 1
    used = data.draw(st.lists(st.sampled_from(sorted(every.elements())), max_size=slots))
    used = list((Counter(used) & every).elements())
    for device in used:
        node.assignments.append(Assignment(job="jobs/a", epoch=1, devices=[device]))
    assert Counter(room_of(node).free) == every - Counter(used)


def test_what_is_missing_is_counted_where_least_is() -> None:
    rooms = [Room("nodes/a", ("cpu",) * 2, "avx2"), Room("nodes/b", ("cpu",), "avx512")]
    assert place(4, rooms) == Short(2)
    assert place(4, []) == Short(4)


def test_the_capacity_is_that_of_the_most_common_kernel_signature_used_slots_included() -> None:
    nodes = [
        Node(name="nodes/a", state=NODE_STATE_READY, slots=2, kernel="old"),
        Node(name="nodes/b", state=NODE_STATE_READY, slots=2, kernel="old"),
        Node(name="nodes/c", state=NODE_STATE_READY, slots=3, kernel="new"),
        Node(name="nodes/d", state=NODE_STATE_LOST, slots=9, kernel="new"),
    ]
    nodes[0].assignments.append(Assignment(job="jobs/a", epoch=1, ranks=[0], devices=["cpu"]))
    assert (capacity(nodes), capacity(nodes[3:]), capacity([])) == (4, 0, 0)


def largest(ranks: int) -> Assignment:
    """An assignment of so many ranks with everything as long as it can be, before it grows."""
    key = f"committer/manifests/{'j' * 128}/{2**64}/{2**64}.json"
    return Assignment(
        job=f"jobs/{'j' * 128}",
        epoch=2**64 - 1,
        ranks=range(16_000, 16_000 + ranks),
        devices=["d" * 16] * ranks,
        shape=Shape(digest="s" * 71, rule="r" * 71, data_parallel=2**32 - 1),
        resume_checkpoint=f"checkpoints/{'j' * 128}/{2**64}/{2**64}",
        resume_manifest_key=key,
        resume_digest="d" * 71,
        traceparent="t" * 55,
        line=2**64 - 1,
        topology_version=2**64 - 1,
        training="t" * (MAX_SPEC_BYTES - 133 - 129 - 71),
        dataset_manifest_key="k" * 129,
        dataset_digest="d" * 71,
    )


def grow(assignment: Assignment) -> None:
    """Tell it where to meet, and to stop."""
    assignment.rendezvous, assignment.stop = "r" * MAX_ADDRESS_BYTES, True


def test_a_node_takes_no_more_jobs_than_its_event_can_hold() -> None:
    node = Node(name=f"nodes/{'n' * 128}", state=NODE_STATE_READY, slots=MAX_SLOTS, devices=["d" * 16] * MAX_SLOTS)
    while room_of(node).free:
        node.assignments.append(largest(1))
    for each in node.assignments:
        grow(each)
    assert MAX_PAYLOAD_BYTES - ASSIGNMENT_BYTES < node.ByteSize() <= MAX_PAYLOAD_BYTES
    assert is_full(node)


def test_the_largest_assignment_fits_into_the_bytes_that_are_set_aside_for_it() -> None:
    node = Node(assignments=[largest(MAX_SLOTS)])
    before = node.ByteSize()
    grow(node.assignments[0])
    assert node.ByteSize() - before <= GROWTH_BYTES
    assert node.ByteSize() <= ASSIGNMENT_BYTES


def test_limits_that_agents_and_jobs_were_accepted_under_stay() -> None:
    assert (MAX_SLOTS, MAX_DEVICE_BYTES, MAX_ADDRESS_BYTES, MAX_SPEC_BYTES) == (256, 16, 300, 6000)
    assert (GROWTH_BYTES, ASSIGNMENT_BYTES) == (310, 13_430)


@pytest.mark.parametrize("assignments", [0, 1, 2])
def test_a_node_is_full_when_the_largest_assignment_might_not_fit(assignments: int) -> None:
    node = Node(assignments=[Assignment(job="jobs/a", epoch=1)] * assignments, reason="x" * 1000)
    left = MAX_PAYLOAD_BYTES - ASSIGNMENT_BYTES - assignments * GROWTH_BYTES - node.ByteSize()
    node.reason += "x" * (left - 1)  # from 16,384 bytes on, its length takes one byte more
    assert node.ByteSize() == MAX_PAYLOAD_BYTES - ASSIGNMENT_BYTES - assignments * GROWTH_BYTES
    assert not is_full(node)
    node.reason += "x"
    assert is_full(node)


def test_a_job_that_no_node_could_be_told_of_is_refused() -> None:
    spec = JobSpec(dataset_manifest_key="k" * 10, dataset_digest="d" * 10, tokenizer_key="t" * 10)
    spec.mixed.append(MixedDataset(manifest_key="m" * 20, digest="d" * 20))
    spec.training = "t" * (MAX_SPEC_BYTES - len("jobs/a") - 30 - 44 - 3)
    check_size("jobs/a", spec)
    spec.training += "t"
    with pytest.raises(InvalidField, match=r"at most 6000 bytes of .* got .6001 bytes"):
        check_size("jobs/a", spec)


def test_nodes_that_drain_or_are_lost_have_no_room() -> None:
    for state in (NODE_STATE_DRAINING, NODE_STATE_LEFT, NODE_STATE_LOST):
        assert room_of(Node(name="nodes/a", state=state, slots=4)).free == ()


@pytest.mark.parametrize(
    ("ranks", "missing", "words"),
    [
        (1, 1, "waiting for a node with 1 free slot"),
        (2, 2, "waiting for nodes with 2 free slots"),
        (3, 1, "waiting for 1 more free slot: it needs 3, one a rank"),
        (4, 2, "waiting for 2 more free slots: it needs 4, one a rank"),
    ],
)
def test_a_job_says_what_it_waits_for(ranks: int, missing: int, words: str) -> None:
    assert waits_for(ranks=ranks, missing=missing, without={"lost": []}, kernels=1) == words


def test_a_job_names_the_nodes_that_take_no_ranks() -> None:
    words = waits_for(ranks=1, missing=1, without={"lost": ["nodes/a", "nodes/b"], "draining": ["nodes/c"]}, kernels=2)
    assert words.split("; ")[1:] == [
        "lost: nodes/a, nodes/b",
        "draining: nodes/c",
        "kernel signatures differ: 2 among the nodes, and a gang has one",
    ]


@given(st.integers(1, 64), st.integers(1, 64))
def test_the_fastest_number_of_ranks_has_the_least_leaves_on_its_busiest_rank(leaves: int, slots: int) -> None:
    ranks = fastest(leaves, slots)
    assert 1 <= ranks <= min(leaves, slots)
    busiest = -(-leaves // ranks)
    assert busiest == min(-(-leaves // other) for other in range(1, min(leaves, slots) + 1))
    assert ranks == 1 or -(-leaves // (ranks - 1)) > busiest


def test_seven_slots_are_no_faster_than_four_for_eight_leaves() -> None:
    assert [fastest(8, slots) for slots in range(1, 9)] == [1, 2, 3, 4, 4, 4, 4, 8]


WAITING = st.lists(
    st.builds(Waiting, job=st.sampled_from("abcdefgh"), since=st.integers(0, 3), ranks=st.integers(1, 6)),
    unique_by=lambda each: each.job,
    min_size=1,
)


@given(WAITING, st.integers(0, 6))
def test_one_job_alone_has_its_turn_unless_none_can_be_held(queue: list[Waiting], capacity: int) -> None:
    turns = [job for job in queue if job.ranks <= capacity and ahead_of(job, queue, capacity) is None]
    assert len(turns) == (1 if any(job.ranks <= capacity for job in queue) else 0)


def test_many_nodes_are_counted_after_the_first_eight() -> None:
    names = [f"nodes/{number}" for number in range(1009)]
    eight = "nodes/0, nodes/1, nodes/2, nodes/3, nodes/4, nodes/5, nodes/6, nodes/7"
    assert node_words(names[:8]) == eight
    assert node_words(names) == f"{eight} and 1,001 more"


def convicted(times: int, **more: object) -> Node:
    return Node(name="nodes/a", slots=2, state=NODE_STATE_READY, convictions=times, **more)  # type: ignore[arg-type]


def test_a_node_is_excluded_from_its_second_conviction_on() -> None:
    assert [is_excluded(convicted(times)) for times in range(4)] == [False, False, True, True]
    assert [len(room_of(convicted(times)).free) for times in range(4)] == [2, 2, 0, 0]
    assert [capacity([convicted(times)]) for times in range(4)] == [2, 2, 0, 0]


def test_the_slots_of_registered_nodes_count_in_every_state_but_of_one_kernel_signature() -> None:
    nodes = [Node(slots=2, state=NODE_STATE_LOST), Node(slots=3, state=NODE_STATE_LEFT), Node(slots=4, kernel="b")]
    assert (registered(nodes), registered(nodes[1:]), registered([])) == (5, 4, 0)


@given(ROOMS, st.integers(1, 24), st.lists(st.integers(0, 8), max_size=4))
def test_doubtful_nodes_never_decide_whether_a_gang_fits(rooms: list[Room], ranks: int, drawn: list[int]) -> None:
    doubtful = [f"nodes/{index}" for index in drawn]
    found, plain = place(ranks, rooms, doubtful=doubtful), place(ranks, rooms)
    assert isinstance(found, Short) == isinstance(plain, Short)
    if isinstance(found, Short):
        assert found == plain
        return
    trusted = [room for room in rooms if room.node not in doubtful]
    used = {seat.node for seat in found} & set(doubtful)
    assert (not used) == (not isinstance(place(ranks, trusted), Short))


def test_of_doubtful_nodes_the_first_are_used_rather_than_the_last() -> None:
    rooms = [Room(f"nodes/{name}", ("cpu",)) for name in "abc"]
    for first, last in (("a", "b"), ("b", "a")):
        found = place(2, rooms, doubtful=[f"nodes/{first}", f"nodes/{last}", "nodes/unknown"])
        assert not isinstance(found, Short)
        assert {seat.node for seat in found} == {"nodes/c", f"nodes/{first}"}


def test_a_clean_node_is_preferred_to_a_familiar_one_that_is_in_doubt() -> None:
    rooms = [Room("nodes/a", ("cpu",)), Room("nodes/b", ("cpu",))]
    found = place(1, rooms, {"nodes/a"}, ["nodes/a"])
    assert not isinstance(found, Short)
    assert found[0].node == "nodes/b"
