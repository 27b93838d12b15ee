"""The journal: what it recorded is ended by the next incarnation, and no attempt begins twice."""

import subprocess
import sys
from pathlib import Path

from tutti.backbone.files import RealFiles
from tutti.platform.processes import ProcessId, process_id
from tutti.trainer.agent.journal import Journal


def test_recorded_processes_are_killed_and_others_are_left_alone(tmp_path: Path) -> None:
    children = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2)]
    mine, reused = (process_id(child.pid) for child in children)
    Journal(tmp_path / "journal", RealFiles()).processes([mine, ProcessId(reused.pid, reused.started - 1)])
    journal = Journal(tmp_path / "journal", RealFiles())
    assert journal.kill_orphans() == 1
    assert not mine.alive()
    assert reused.alive()
    assert journal.record.processes == ()
    for child in children:
        child.kill()
        child.wait()


def test_an_attempt_begins_once_over_all_incarnations(tmp_path: Path) -> None:
    assert Journal(tmp_path / "journal", RealFiles()).begin("jobs/x", 3)
    again = Journal(tmp_path / "journal", RealFiles())
    assert not again.begin("jobs/x", 3)
    assert again.begin("jobs/x", 4)


def test_a_damaged_journal_is_read_as_empty(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text('{"processes": [[1')
    assert Journal(tmp_path / "journal", RealFiles()).record.processes == ()
