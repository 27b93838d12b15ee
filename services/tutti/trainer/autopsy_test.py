"""The autopsy names who is silent, or who is furthest behind, and what all were doing."""

import json

from tutti.contracts.trainer.v1 import FlightRecord
from tutti.trainer.autopsy import examine, last_collective


def record(step: int, phase: str, sequence: int = 0, *, retired: bool = False) -> FlightRecord:
    entries = [
        {"collective_seq_id": number, "profiling_name": "gloo:all_to_all", "retired": retired or number < sequence}
        for number in range(1, sequence + 1)
    ]
    stacks = (
        'lifeline:\n  File "/x/lifeline.py", line 1, in _record\n    y\n\n'
        'MainThread:\n  File "/x/tutti/a.py", line 1, in f\n'
        '    x\n  File "/x/tutti/model/step.py", line 9, in run\n    y\n  File "/x/torch/c10d.py", line 7, in wrapper\n'
    )
    return FlightRecord(step=step, phase=phase, stacks=stacks, collectives=json.dumps({"entries": entries}))


def test_the_silent_rank_is_guilty_and_the_others_say_what_they_wait_for() -> None:
    finding = examine({0: record(8, "stepping", 12)}, [1], steps={0: 7, 1: 7}, seconds=10.04)
    assert finding.guilty == (1,)
    assert finding.cause.startswith("rank 1 has not answered for 10.0 s, after step 7")
    assert "rank 0 is in step 8, stepping, last collective gloo:all_to_all #12 (waiting)" in finding.cause
    assert "at model/step.py line 9 in run" in finding.cause


def test_where_all_answer_the_one_furthest_behind_is_guilty() -> None:
    records = {0: record(8, "stepping", 12), 1: record(8, "reading", 11, retired=True), 2: record(8, "stepping", 12)}
    assert examine(records, [], steps=dict.fromkeys(range(3), 7), seconds=300).guilty == (1,)
    records[2] = record(7, "validating", 20)
    assert examine(records, [], steps=dict.fromkeys(range(3), 6), seconds=300).guilty == (2,)


def test_a_record_that_cannot_be_read_is_no_collective() -> None:
    for text in ("", "{}", "not json", '{"entries": [{}]}', "[]", '{"entries": []}'):
        assert last_collective(FlightRecord(collectives=text)) is None
