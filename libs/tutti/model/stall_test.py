"""Stalls: the ranks that hold up a gang are named, those that wait are not, and a cycle is one cause."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from tutti.model.stall import STORING, Call, Finding, Gang, Standing, examine

NODES = {0: "nodes/a", 1: "nodes/a", 2: "nodes/b", 3: "nodes/b"}
WORLD = {"0": (0, 1, 2, 3)}
STALLED = 30.0


def waiting(rank: int, number: int = 12, *, group: str = "0", idle: float = STALLED, step: int = 8) -> Standing:
    """A rank that waits in the operation of a group with this number."""
    calls = (Call(group, number, "gloo:all_to_all", pending=number),)
    return Standing(rank, crossed=7, step=step, phase="stepping", idle=idle, calls=calls)


def busy(rank: int, number: int = 11, *, phase: str = "reading", idle: float = STALLED, step: int = 8) -> Standing:
    """A rank outside of any operation, after the one with this number."""
    calls = (Call("0", number, "gloo:all_to_all"),)
    return Standing(rank, crossed=7, step=step, phase=phase, idle=idle, calls=calls, place="tutti/data.py line 9 in f")


def silent(rank: int) -> Standing:
    return Standing(rank, crossed=7, silent=True)


def receiving(rank: int, peer: int) -> Standing:
    calls = (Call("0", 3, "nccl:recv", pending=4, peers=(peer,)),)
    return Standing(rank, crossed=7, step=8, phase="stepping", idle=STALLED, calls=calls)


def found(standings: Sequence[Standing], *, gang: Gang | None = None) -> Finding:
    return examine(gang or Gang(NODES, WORLD), standings, seconds=STALLED)


def test_the_rank_that_has_not_entered_an_operation_is_guilty_wherever_it_is() -> None:
    finding = found([waiting(0), waiting(1), busy(2), waiting(3)])
    assert (finding.guilty, finding.cycle, finding.excused) == ((2,), False, False)
    assert finding.waits == {0: (2,), 1: (2,), 2: (), 3: (2,)}
    assert "rank 2 on nodes/b" in finding.cause
    assert "ranks 0, 1, 3" in finding.cause


def test_a_chain_leads_to_its_end() -> None:
    gang = Gang(NODES, {"x": (0, 1), "y": (1, 2), "z": (2, 3)})
    standings = [waiting(0, 5, group="x"), waiting(1, 9, group="y"), waiting(2, 2, group="z"), busy(3)]
    finding = found(standings, gang=gang)
    assert (finding.guilty, finding.waits) == ((3,), {0: (1,), 1: (2,), 2: (3,), 3: ()})


def test_a_cycle_of_three_is_one_cause_that_names_all_members_and_no_other_rank() -> None:
    gang = Gang(NODES, {"x": (0, 1), "y": (1, 2), "z": (0, 2), "0": (0, 1, 2, 3)})
    cycle = [waiting(0, 5, group="x"), waiting(1, 9, group="y"), waiting(2, 2, group="z")]
    finding = found([*cycle, waiting(3)], gang=gang)
    assert (finding.guilty, finding.cycle) == ((0, 1, 2), True)
    assert finding.waits[3] == (0, 1, 2)
    assert "ranks 0, 1 on nodes/a, rank 2 on nodes/b" in finding.cause


def test_receivers_that_wait_for_each_other_are_a_cycle() -> None:
    finding = found([receiving(0, 1), receiving(1, 2), receiving(2, 0), receiving(3, 0)])
    assert (finding.guilty, finding.cycle, finding.waits) == ((0, 1, 2), True, {0: (1,), 1: (2,), 2: (0,), 3: (0,)})


def test_a_silent_rank_is_guilty_and_others_may_be_anywhere_in_their_step() -> None:
    finding = found([waiting(0), busy(1), silent(2), waiting(3)])
    assert (finding.guilty, finding.cycle) == ((2,), False)
    assert "after step 7" in finding.cause


def test_nodes_that_did_not_answer_are_named_and_only_guilty_if_nobody_else_is() -> None:
    finding = found([waiting(0), busy(1)])
    assert finding.guilty == (1,)
    assert "nodes/b did not answer" in finding.cause
    finding = found([waiting(0), waiting(1)])
    assert finding.guilty == (2, 3)
    assert "nodes/b did not answer" in finding.cause


def test_a_rank_that_computes_or_whose_node_still_stores_excuses_all() -> None:
    assert found([waiting(0), waiting(1), busy(2, idle=1.0), waiting(3)]).excused
    assert found([waiting(0), waiting(1), busy(2, phase=STORING), waiting(3)]).excused
    assert not found([silent(0), waiting(1), busy(2, phase=STORING), waiting(3)]).excused
    mixed = found([waiting(0), busy(1), busy(2, idle=1.0), waiting(3)])
    assert (mixed.guilty, mixed.excused) == ((1,), False)


def test_where_every_rank_has_entered_the_operation_no_rank_is_guilty() -> None:
    finding = found([waiting(rank) for rank in range(4)])
    assert (finding.guilty, finding.excused) == ((), False)


def test_without_operations_the_rank_furthest_behind_is_guilty() -> None:
    finding = found([busy(0, step=9), busy(1, step=9), busy(2, step=8), busy(3, step=9)])
    assert finding.guilty == (2,)
    assert found([busy(0, step=9, idle=1.0), busy(1), busy(2), busy(3)]).excused
    assert found([busy(0, idle=STALLED)], gang=Gang({0: "nodes/a"}, {})).guilty == (0,)


EDGES = st.dictionaries(st.integers(0, 7), st.sets(st.integers(0, 7), max_size=3), min_size=8, max_size=8)


@given(EDGES, st.randoms())
def test_the_guilty_are_those_who_wait_for_nobody_else_and_all_others_lead_to_them(
    edges: Mapping[int, set[int]], random: st.DrawFn
) -> None:
    standings = [
        Standing(rank, step=8, idle=STALLED, calls=tuple(Call("0", 1, "recv", 2, (peer,)) for peer in sorted(peers)))
        for rank, peers in edges.items()
    ]
    gang = Gang({rank: f"nodes/{rank // 2}" for rank in range(8)}, {"0": tuple(range(8))})
    finding = found(standings, gang=gang)
    waits = {rank: peers - {rank} for rank, peers in edges.items()}
    assert finding.waits == {rank: tuple(sorted(peers)) for rank, peers in waits.items()}
    reach = {rank: closure(rank, waits) for rank in waits}
    ends = {rank for rank in waits if all(rank in reach[other] for other in reach[rank])}
    held_up = {rank for rank in ends if any(rank in peers for peers in waits.values())}
    if held_up:
        assert set(finding.guilty) == held_up
        assert finding.cycle == any(waits[rank] for rank in held_up)
    random.shuffle(standings)  # type: ignore[attr-defined]
    assert found(standings, gang=gang) == finding


def closure(rank: int, waits: Mapping[int, set[int]]) -> set[int]:
    reached: set[int] = set()
    for _ in waits:
        reached |= waits[rank] | {each for other in reached for each in waits[other]}
    return reached
