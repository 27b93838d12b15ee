"""A program that knows nothing of Tutti reads a topic of a real broker, with a descriptor set of the protos."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tutti.backbone.connect import open_log
from tutti.backbone.eventlog import Kind, NewRecord, Topic
from tutti.contracts.common.v1 import STATE_DONE, STATE_RUNNING
from tutti.contracts.pipeline.v1 import Run

ROOT = Path(__file__).resolve().parents[2]


def test_a_program_reads_the_snapshots_of_a_run_with_a_descriptor_set(
    kafka_url: str, unique: str, tmp_path: Path
) -> None:
    topic, types = f"{unique}.runs", tmp_path / "tutti.binpb"
    built = subprocess.run(
        [Path(sys.executable).with_name("buf"), "build", ROOT / "protos", "-o", types],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    with closing(open_log(kafka_url)) as log:
        log.ensure([Topic(topic, Kind.STATE, 2)])
        snapshots = [
            Run(name="runs/a", revision=n, state=state) for n, state in enumerate((STATE_RUNNING, STATE_DONE), 1)
        ]
        for each in (snapshots[0], Run(name="runs/b", revision=1), snapshots[1]):
            headers = {"ce_type": Run.DESCRIPTOR.full_name, "ce_id": f"{each.name}/{each.revision}"}
            log.append([NewRecord(topic, each.name, each.SerializeToString(), headers)])
    program = ROOT / "examples" / "kafka" / "read_topic.py"
    command = [sys.executable, str(program), kafka_url, topic, "--types", str(types), "--key", "runs/a"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["key"], each["id"], each["value"]["state"]) for each in found] == [
        ("runs/a", "runs/a/1", "STATE_RUNNING"),
        ("runs/a", "runs/a/2", "STATE_DONE"),
    ]
