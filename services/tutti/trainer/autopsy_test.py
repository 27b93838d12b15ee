"""The autopsy condenses a flight record to what a rank waits for, and never fails on one that it cannot read."""

import json
from typing import Any

import pytest

from tutti.contracts.trainer.v1 import FlightRecord
from tutti.model.stall import Call
from tutti.trainer.autopsy import (
    GROUPS,
    MEETING,
    RENDEZVOUS,
    STARTING,
    groups_of,
    groups_to_wire,
    staging,
    standing_of,
    to_wire,
)

STACKS = (
    'lifeline:\n  File "/x/lifeline.py", line 1, in _record\n    y\n\n'
    'MainThread:\n  File "/x/tutti/a.py", line 1, in f\n'
    '    x\n  File "/x/tutti/model/step.py", line 9, in run\n    y\n  File "/x/torch/c10d.py", line 7, in wrapper\n'
)


def entry(number: int, *, group: str = "0", retired: bool = True, **more: Any) -> dict[str, Any]:
    """An entry of the back end's record."""
    return {
        "record_id": number,
        "collective_seq_id": number,
        "process_group": [group, "default_pg"],
        "profiling_name": "gloo:all_to_all",
        "retired": retired,
        "is_p2p": False,
        **more,
    }


def record(*entries: dict[str, Any], phase: str = "stepping") -> FlightRecord:
    collectives = json.dumps({"entries": entries, GROUPS: {"0": [0, 1, 2], "1": [0, 2]}})
    return FlightRecord(step=8, phase=phase, stacks=STACKS, collectives=collectives)


def calls(found: FlightRecord) -> tuple[Call, ...]:
    """The operations of a rank, without the rendezvous, which it has entered."""
    rendezvous, *others = standing_of(1, found, crossed=7, idle=2.0).calls
    assert rendezvous == Call(RENDEZVOUS, 1, "rendezvous")
    return tuple(others)


def test_a_rank_waits_in_the_oldest_operation_of_a_group_that_it_has_not_left() -> None:
    waits = record(entry(11), entry(12, retired=False), entry(13, retired=False), entry(4, group="1"))
    assert calls(waits) == (Call("0", 13, "gloo:all_to_all", pending=12), Call("1", 4, "gloo:all_to_all"))
    standing = standing_of(1, waits, crossed=7, idle=2.0)
    assert (standing.rank, standing.crossed, standing.step, standing.phase, standing.idle) == (1, 7, 8, "stepping", 2.0)
    assert standing.place == "model/step.py line 9 in run"


def test_the_peer_of_a_point_to_point_operation_is_the_rank_of_its_group() -> None:
    receives = entry(5, group="1", retired=False, is_p2p=True, p2p_seq_id=3, profiling_name="nccl:recv 0<-1")
    assert calls(record(receives)) == (Call("1", 0, "nccl:recv 0<-1", pending=3, peers=(2,)),)


def test_a_rank_that_does_not_answer_is_silent() -> None:
    standing = standing_of(1, None, crossed=7, idle=20.0)
    assert (standing.silent, standing.crossed, standing.calls) == (True, 7, ())


def test_the_rendezvous_is_an_operation_that_ranks_which_stage_or_start_have_not_entered() -> None:
    assert staging(1).calls == (Call(RENDEZVOUS, 0, "rendezvous"),)
    (starting,) = standing_of(1, record(phase=STARTING), crossed=0, idle=1.0).calls
    (meeting,) = standing_of(1, record(phase=MEETING), crossed=0, idle=1.0).calls
    assert (starting.entered, starting.pending, meeting.entered, meeting.pending) == (0, None, 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "not json",
        "[]",
        '{"entries": [{}]}',
        '{"entries": []}',
        '{"entries": 3, "groups": 4}',
        '{"groups": {"0": 1}}',
    ],
)
def test_a_record_that_cannot_be_read_is_one_of_no_operation(text: str) -> None:
    found = FlightRecord(step=8, phase="stepping", collectives=text)
    assert calls(found) == ()
    assert groups_of([found], 2) == {RENDEZVOUS: (0, 1)}


def test_what_leaves_the_node_is_small() -> None:
    long = record(*[entry(number, group=str(number)) for number in range(500)], phase="p" * 5000)
    long.stacks = 'MainThread:\n  File "/x/tutti/' + "d" * 5000 + '.py", line 1, in f\n'
    wire = to_wire(standing_of(1, long, crossed=7, idle=2.0))
    assert wire.ByteSize() < 3000
    assert [(group.name, list(group.ranks)) for group in groups_to_wire(groups_of([long], 3))] == [
        ("0", [0, 1, 2]),
        ("1", [0, 2]),
        (RENDEZVOUS, [0, 1, 2]),
    ]
