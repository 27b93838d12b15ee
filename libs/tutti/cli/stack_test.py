"""`tutti stack` on the data directory of a host whose event log was removed by mistake."""

import json
import shutil
from pathlib import Path

import pytest

from tutti.chassis.config.datadir import DataDir
from tutti.chassis.demo_test import running
from tutti.chassis.store.stack import ForeignStore
from tutti.cli.app import build
from tutti.cli.failures import guarded


def tutti(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    """Exit code, output, errors."""
    with pytest.raises(SystemExit) as ended:
        guarded(lambda: build()(list(arguments), standalone_mode=False))
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def test_a_host_refuses_an_emptied_log_until_it_is_adopted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--data-dir", str(tmp_path))
    with running(tmp_path) as demo:
        demo.create("ingests/a")
        code, _, err = tutti(capsys, "stack", "show", *where)
        assert (code, "in use" in err) == (1, True)
    shutil.rmtree(tmp_path / "log")
    with pytest.raises(ForeignStore, match=r"^the event log .*tutti stack adopt"), running(tmp_path):
        raise AssertionError("the host started on an emptied event log")
    code, out, _ = tutti(capsys, "stack", "show", "ingest", "-o", "json", *where)
    held = {each["store"]: each["id"] for each in json.loads(out)}
    assert (code, held["log"], held["blobs"]) == (0, "", held["database ingest"])
    code, _, err = tutti(capsys, "stack", "adopt", "ingest", *where)
    assert (code, held["blobs"] in err) == (0, True)
    with running(tmp_path) as demo:
        demo.create("ingests/b")


def test_what_cannot_be_adopted_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--data-dir", str(tmp_path))
    code, _, err = tutti(capsys, "stack", "show", *where)
    assert (code, "is not a data directory" in err) == (2, True)
    DataDir(tmp_path)
    code, _, err = tutti(capsys, "stack", "adopt", "scheduling", *where)
    assert (code, "scheduling is not a service" in err) == (2, True)
    code, _, err = tutti(capsys, "stack", "adopt", *where)
    assert (code, "no store has an id yet" in err) == (1, True)
