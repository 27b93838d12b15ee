"""Every service a process of its own, on Kafka, Postgres and S3: the same states and the same canonical export as
embedded, also when servers or everything is killed on the way.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.command import checkpoints, platform, tiny, tutti
from tests.faults.moments import Moment
from tests.faults.processes import kill_all, until
from tests.stack.conftest import local, processes
from tutti.chassis.config.settings import installed_services
from tutti.chassis.errors import NotFound
from tutti.client import Client, connect
from tutti.contracts.common.v1 import STATE_DONE, STATE_RUNNING, GetRequest

pytestmark = pytest.mark.timeout(600)
SERVERS = ("kafka", "postgres", "s3")
PLAIN = ("input.limit=19", "train.steps=10")
# Shares all but training with the plain one; three ranks need both agents where there are two cores.
SERVERS_KILLED = ("input.limit=19", "train.steps=20", "train.ranks=3")
STEPS = 20
ALL_KILLED = ("input.limit=20", f"train.steps={STEPS}")
# All is killed twice on the way of one run: when a stage has begun, and between two checkpoints.
MOMENTS = (Moment("tokenization", 1, 1), Moment("train", 3, 1))
Embedded = Callable[..., Any]


@pytest.fixture(scope="module")
def undisturbed(stack: Path, pages: Path) -> Any:
    result = tutti(*tiny(stack, pages, *PLAIN))
    assert result.code == 0, result.err
    return result.json()


@pytest.fixture(scope="module")
def with_servers_killed(stack: Path, pages: Path) -> Any:
    kills = [part for kill in ("s3@2", "kafka@5", "postgres@9") for part in ("--kill", kill)]
    command, *arguments = tiny(stack, pages, *SERVERS_KILLED)
    result = local("stack.py", command, *arguments, *kills)
    print(result.err)
    assert result.code == 0, result.err
    return result.json()


@pytest.fixture(scope="module")
def with_all_killed(stack: Path, pages: Path) -> Any:
    detached = tutti(*tiny(stack, pages, *ALL_KILLED, output=("--detach",)))
    assert detached.code == 0, detached.err
    run = detached.out.strip()
    for moment in MOMENTS:
        kill_all_at(moment, stack, run)
        again = local("stack.py", "up", "--data-dir", stack)
        assert again.code == 0, again.err
    result = tutti("runs", "follow", run, "--data-dir", stack, "-o", "json")
    assert result.code == 0, result.err
    return result.json()


def kill_all_at(moment: Moment, stack: Path, run: str) -> None:
    print(f"moment {moment}: event {moment.nth} of {moment.stage}, then {moment.delay:.3f} s")
    with connect(stack) as client:
        until(lambda: events(client, run, moment.stage) >= moment.nth, seconds=120, what=f"{moment} of {run}")
    moment.linger()
    assert kill_all(stack) >= len(installed_services())


def events(client: Client, run: str, stage: str) -> int:
    """Of training the steps that were crossed and told; of another stage 1 once it has begun."""
    stages = {each.name: each for each in client.pipeline.GetRun(GetRequest(name=run)).stages}
    if stage not in stages:
        return 0
    if stage != "train":
        return int(stages[stage].state in (STATE_RUNNING, STATE_DONE))
    try:
        return client.scheduler.GetJob(GetRequest(name=stages[stage].resource)).step if stages[stage].resource else 0
    except NotFound:
        return 0


def test_services_apart_give_the_states_of_the_embedded_platform(undisturbed: Any, embedded: Embedded) -> None:
    assert checkpoints(undisturbed) == checkpoints(embedded(*PLAIN))
    assert sorted(checkpoints(undisturbed)) == [5, 10]


def test_every_process_is_listed_with_its_parent(undisturbed: Any, stack: Path) -> None:
    found = processes(stack)
    keeper = next(each["pid"] for each in found if each["what"] == "keeper")
    kept = {each["what"]: each for each in found if each["restarts"] is not None}
    assert set(kept) == {*SERVERS, *installed_services(), "agent-a", "agent-b"}
    assert all(each["parent"] == keeper for each in kept.values())
    assert len({each["pid"] for each in found}) == len(found)


def test_no_secret_stands_in_a_command_line(undisturbed: Any, stack: Path) -> None:
    kept = [*(stack / "servers").rglob("server.json"), *(stack / "servers").glob("*s.json")]
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    words = " ".join(path.read_text() for path in kept).replace('"', " ").split()
    secrets = {word.strip(",:") for word in words if len(word) > 24}
    assert len(secrets) >= len(installed_services())
    lines = [" ".join(psutil.Process(each["pid"]).cmdline()) for each in processes(stack)]
    assert len(lines) > len(installed_services())
    assert [secret for secret in secrets if any(secret in line for line in lines)] == []


def test_a_run_survives_the_death_of_broker_database_and_blob_store(
    with_servers_killed: Any, embedded: Embedded, stack: Path
) -> None:
    assert checkpoints(with_servers_killed) == checkpoints(embedded(*SERVERS_KILLED))
    restarts = {each["what"]: each["restarts"] for each in processes(stack)}
    assert {name: restarts[name] for name in SERVERS} == dict.fromkeys(SERVERS, 1)


def test_everything_killed_goes_on_where_it_was(with_all_killed: Any, embedded: Embedded) -> None:
    assert checkpoints(with_all_killed) == checkpoints(embedded(*ALL_KILLED))


def test_the_canonical_export_is_that_of_the_embedded_platform(
    undisturbed: Any, with_servers_killed: Any, with_all_killed: Any, embedded: Embedded, stack: Path
) -> None:
    for overrides in (PLAIN, SERVERS_KILLED, ALL_KILLED):
        embedded(*overrides)
    theirs = tutti("export", "--canonical", "--data-dir", embedded.data_dir)  # type: ignore[attr-defined]
    ours = tutti("export", "--canonical", "--data-dir", stack)
    assert (theirs.code, ours.code) == (0, 0), theirs.err + ours.err
    assert len(theirs.out.splitlines()) >= 8
    assert ours.out == theirs.out


def test_a_backup_of_the_servers_is_restored_to_an_embedded_platform(
    undisturbed: Any, stack: Path, tmp_path: Path
) -> None:
    folder, data_dir = tmp_path / "backup", tmp_path / "restored"
    made = local("stack.py", "backup", folder, "--data-dir", stack)
    assert made.code == 0, made.err
    restored = tutti("restore", folder, "--data-dir", data_dir)
    assert restored.code == 0, restored.err
    ours = tutti("export", "--canonical", "--data-dir", stack)
    with platform(data_dir, agents=0):
        theirs = tutti("export", "--canonical", "--data-dir", data_dir)
        assert (theirs.code, ours.code) == (0, 0), theirs.err + ours.err
        assert theirs.out == ours.out
