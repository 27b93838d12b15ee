"""Every service a process of its own, two of those that lead, on Kafka, Postgres and S3: the same states and the same
canonical export as embedded, also when servers, leaders or everything is killed on the way, or replicas are restarted
one after another.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from tests.e2e.command import checkpoints, platform, tiny, tutti
from tests.faults.moments import Moment
from tests.faults.processes import kill_all, until
from tests.promtool import promtool
from tests.scale import SOAK, rotated
from tests.stack.clients import console_consumer, grpcurl, psql, said
from tests.stack.conftest import LEADING, REPLICAS, Embedded, local, processes
from tests.stack.observed import Observed, job_of, leaders, leads_after, trains
from tutti.backbone.direct import fetch
from tutti.chassis.config.datadir import tokens_at
from tutti.chassis.config.settings import installed_services
from tutti.chassis.errors import NotFound, PermissionDenied
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.channel import RpcChannel
from tutti.chassis.rpc.locator import locate
from tutti.client import Client, connect
from tutti.contracts.common.v1 import STATE_DONE, STATE_RUNNING, GetRequest
from tutti.contracts.scheduler.v1 import JOB_STATE_DONE, Job, RegisterNodeRequest
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub

pytestmark = pytest.mark.timeout(900)
SERVERS = ("kafka", "postgres", "s3")
PLAIN = ("input.limit=19", "train.steps=10")
# Shares all but training with the plain one; three ranks need both agents where there are two cores.
SERVERS_KILLED = ("input.limit=19", "train.steps=20", "train.ranks=3")
STEPS = 20
ALL_KILLED = ("input.limit=20", f"train.steps={STEPS}")
# Long enough for every restart of a replica to fall into it.
ROLLED = ("input.limit=19", f"train.steps={1500 if SOAK else 120}", "train.checkpoint_every=40")
MOST_CONNECTIONS = 80
# All is killed on the way of one run: when a stage has begun, and between two checkpoints; in a soak at both moments.
MOMENTS = (Moment("tokenization", 1, 1), Moment("train", 3, 1))
CARRIED_OUT = (PLAIN, SERVERS_KILLED, ALL_KILLED, ROLLED)


@pytest.fixture(scope="module")
def undisturbed(embedded: Embedded, stack: Path, pages: Path) -> Any:
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
    for moment in rotated(MOMENTS, test=1):
        kill_all_at(moment, stack, run)
        again = local("stack.py", "up", "--data-dir", stack, *REPLICAS)
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
    assert checkpoints(undisturbed) == embedded.checkpoints(*PLAIN)
    assert sorted(checkpoints(undisturbed)) == [5, 10]


def test_every_process_is_listed_with_its_parent(undisturbed: Any, stack: Path) -> None:
    found = processes(stack)
    keeper = next(each["pid"] for each in found if each["what"] == "keeper")
    kept = {each["what"]: each for each in found if each["restarts"] is not None}
    second = {f"{service}-2" for service in (installed_services() if SOAK else LEADING)}
    assert set(kept) == {*SERVERS, *installed_services(), *second, "agent-a", "agent-b"}
    assert all(each["parent"] == keeper for each in kept.values())
    assert len({each["pid"] for each in found}) == len(found)


def test_no_secret_stands_in_a_command_line(undisturbed: Any, stack: Path) -> None:
    servers = stack / "servers"
    kept = [*servers.rglob("server.json"), *servers.glob("*s.json"), *servers.glob("*.tokens")]
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    words = " ".join(path.read_text() for path in kept).replace('"', " ").split()
    secrets = {word.strip(",:") for word in words if len(word) > 24}
    assert len(secrets) >= len(installed_services())
    lines = []
    for each in processes(stack):
        with contextlib.suppress(psutil.ZombieProcess):  # one that is being replaced has no command line any more
            lines.append(" ".join(psutil.Process(each["pid"]).cmdline()))
    assert len(lines) > len(installed_services())
    assert [secret for secret in secrets if any(secret in line for line in lines)] == []


def test_a_run_survives_the_death_of_broker_database_and_blob_store(
    with_servers_killed: Any, embedded: Embedded, stack: Path
) -> None:
    assert checkpoints(with_servers_killed) == embedded.checkpoints(*SERVERS_KILLED)

    def are_back() -> bool:  # a run may end while a server is still being started again
        restarts = {each["what"]: each["restarts"] for each in processes(stack)}
        return all(restarts.get(name, 0) >= 1 for name in SERVERS)

    until(are_back, seconds=120, what=f"{SERVERS} to be started again after they were killed")


def test_everything_killed_goes_on_where_it_was(with_all_killed: Any, embedded: Embedded) -> None:
    assert checkpoints(with_all_killed) == embedded.checkpoints(*ALL_KILLED)


@dataclass(frozen=True)
class Endured:
    result: Any
    observed: Observed
    before: dict[str, tuple[int, int]]
    after: dict[str, tuple[int, int]]
    job: Job


@pytest.fixture(scope="module")
def endured(stack: Path, pages: Path) -> Endured:
    """A run while leaders are killed and stopped, and replicas restarted one after another."""
    detached = tutti(*tiny(stack, pages, *ROLLED, output=("--detach",)))
    assert detached.code == 0, detached.err
    run = detached.out.strip()
    until(lambda: trains(stack, run, 2), seconds=180, what="the training")
    observed = Observed(stack, job_of(stack, run).name)
    thread = threading.Thread(target=observed.look)
    thread.start()
    before = leaders(stack)
    try:
        rolled = local("stack.py", "roll", "--data-dir", stack, *only(), seconds=1800)
        assert rolled.code == 0, rolled.err
        print(rolled.out)
        os.kill(leaders(stack)["committer"][0], signal.SIGKILL)
        stopped = leaders(stack)["scheduler"]
        os.kill(stopped[0], signal.SIGSTOP)
        began = time.monotonic()
        until(lambda: leads_after(stack, stopped[1]), seconds=60, what="another scheduler")
        print(f"another scheduler leads {time.monotonic() - began:.1f} s after a SIGSTOP")
        os.kill(stopped[0], signal.SIGCONT)
        result = tutti("runs", "follow", run, "--data-dir", stack, "-o", "json")
        assert result.code == 0, result.err
    finally:
        observed.over.set()
        thread.join()
    return Endured(result.json(), observed, before, leaders(stack), job_of(stack, run))


def only() -> list[str]:
    """All services in a soak; else those that lead."""
    return [] if SOAK else [part for each in LEADING for part in ("--only", each)]


def test_a_training_does_not_notice_that_its_services_are_restarted_killed_and_stopped(
    endured: Endured, embedded: Embedded
) -> None:
    assert checkpoints(endured.result) == embedded.checkpoints(*ROLLED)
    assert endured.job.epoch == 1  # its ranks were never started again
    steps = endured.observed.steps
    usual = (steps[-1][0] - steps[0][0]) / max(1, steps[-1][1] - steps[0][1])
    print(f"a step took {usual:.2f} s; the longest time without one {endured.observed.longest_gap:.1f} s")


def test_every_new_leader_has_a_higher_term(endured: Endured) -> None:
    for service in LEADING:
        assert endured.after[service][1] >= endured.before[service][1] + 1
        assert endured.after[service][0] != 0


def test_replicas_open_80_connections_at_most(endured: Endured) -> None:
    print(f"{max(endured.observed.connections)} connections to Postgres at most")
    assert 0 < max(endured.observed.connections) <= MOST_CONNECTIONS


def test_the_canonical_export_is_that_of_the_embedded_platform(
    undisturbed: Any, with_servers_killed: Any, with_all_killed: Any, endured: Endured, embedded: Embedded, stack: Path
) -> None:
    ours = tutti("export", "--canonical", "--data-dir", stack)
    assert ours.code == 0, ours.err
    assert len(embedded.canonical.splitlines()) >= 8
    assert ours.out == embedded.canonical


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


def test_each_agent_acts_for_its_node_and_its_token_is_good_for_no_other(
    undisturbed: Any, stack: Path, reader: dict[str, str]
) -> None:
    query = (
        "SELECT subject, headers ->> 'user' FROM scheduler_views.events "
        "WHERE type = 'tutti.scheduler.v1.Node' AND revision = 1 ORDER BY subject"
    )
    registered = said(psql(), reader["TUTTI_SQL"], "-AtX", words=query).split()
    assert registered == ["nodes/a|nodes/a", "nodes/b|nodes/b"]
    token = tokens_at(stack / "servers" / "agent-a.tokens", [Role.AGENT]).of(Role.AGENT)
    own = RpcChannel(lambda: locate("scheduler", {}, stack), token=token)
    with connect(stack) as client, closing(own) as channel:
        node = client.scheduler.GetNode(GetRequest(name="nodes/a"))
        again = RegisterNodeRequest(
            name=node.name, slots=node.slots, address=node.address, devices=node.devices,
            incarnation=node.incarnation, kernel=node.kernel, machine=node.machine,
        )  # fmt: skip
        assert SchedulerServiceStub(channel).RegisterNode(again).incarnation == node.incarnation
        again.name = "nodes/b"
        with pytest.raises(PermissionDenied, match="that of nodes/a, so it cannot act as nodes/b") as refused:
            SchedulerServiceStub(channel).RegisterNode(again)
    assert refused.value.reason == "OTHER_NODE"


@pytest.fixture(scope="module")
def job(undisturbed: Any) -> str:
    return f"jobs/{undisturbed['checkpoints'][0]['name'].split('/')[1]}"


@pytest.fixture(scope="module")
def reader(stack: Path) -> dict[str, str]:
    """The URLs of a person who reads: TUTTI_SQL, TUTTI_EVENTS, TUTTI_BLOBS."""
    printed = local("stack.py", "reader", "--data-dir", stack)
    assert printed.code == 0, printed.err
    return dict(line.split("=", 1) for line in printed.out.splitlines())


def test_psql_reads_jobs_and_events_in_columns(job: str, reader: dict[str, str]) -> None:
    query = (
        f"SELECT state, step, started_at < ended_at, spec ->> 'steps' FROM scheduler_views.jobs WHERE name = '{job}'"  # noqa: S608
    )
    assert said(psql(), reader["TUTTI_SQL"], "-AtX", words=query).strip() == "JOB_STATE_DONE|10|t|10"
    query = f"SELECT payload ->> 'state' FROM scheduler_views.events WHERE subject = '{job}' ORDER BY revision"  # noqa: S608
    states = said(psql(), reader["TUTTI_SQL"], "-AtX", words=query).split()
    assert (states[0], states[-1]) == ("JOB_STATE_QUEUED", "JOB_STATE_DONE")


def test_a_kafka_client_reads_the_newest_snapshot_of_a_job(job: str, reader: dict[str, str]) -> None:
    import kafka

    url = urlsplit(reader["TUTTI_EVENTS"])
    consumer = kafka.KafkaConsumer(
        "scheduler.jobs",
        bootstrap_servers=f"{url.hostname}:{url.port}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username=url.username,
        sasl_plain_password=url.password,
        group_id="reader",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=60_000,
    )
    newest: dict[str, Job] = {}
    for record in consumer:
        headers = {name: value.decode() for name, value in record.headers}
        assert headers["ce_type"] == "tutti.scheduler.v1.Job"
        newest[record.key.decode()] = Job.FromString(record.value)
        if newest.get(job, Job()).state == JOB_STATE_DONE:
            break
    consumer.close()
    assert newest[job].step == 10


def test_the_console_consumer_of_kafka_reads_keys_and_headers(job: str, reader: dict[str, str], tmp_path: Path) -> None:
    url, settings = urlsplit(reader["TUTTI_EVENTS"]), tmp_path / "reader.properties"
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{url.username}"'
    settings.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={login} "
        f'password="{url.password}";\ngroup.id=reader\nenable.auto.commit=false\n'
    )
    server, printed = f"{url.hostname}:{url.port}", ("--property", "print.key=true", "--property", "print.headers=true")
    command = [*console_consumer(), "--bootstrap-server", server, "--topic", "scheduler.jobs", "--from-beginning"]
    command += ["--consumer.config", str(settings), *printed, "--timeout-ms"]
    read = list[list[bytes]]()
    for timeout in ("10000", "40000", "160000"):  # it reads until it was silent for so long, also at a slow start
        done = subprocess.run([*command, timeout], capture_output=True, timeout=400, check=False)
        read = [line.split(b"\t")[:2] for line in done.stdout.split(b"\n") if b"ce_type:" in line]
        if job.encode() in {key for _, key in read}:
            break
    assert job.encode() in {key for _, key in read}, done.stderr.decode()[-2000:]
    assert all(b"ce_type:tutti.scheduler.v1.Job" in headers for headers, _ in read)


def test_another_s3_client_reads_a_manifest_and_writes_nothing(undisturbed: Any, reader: dict[str, str]) -> None:
    from pyarrow.fs import FileSelector, S3FileSystem  # type: ignore[attr-defined]

    url = urlsplit(reader["TUTTI_BLOBS"])
    client = S3FileSystem(
        access_key=url.username, secret_key=url.password, endpoint_override=f"{url.hostname}:{url.port}",
        scheme="http", region="us-east-1",
    )  # fmt: skip
    bucket = url.path.strip("/")
    found = client.get_file_info(FileSelector(f"{bucket}/checkpoints", recursive=True, allow_not_found=True))
    found += client.get_file_info(FileSelector(f"{bucket}/committer", recursive=True, allow_not_found=True))
    manifests = [each.path for each in found if "/manifests/" in each.path and each.is_file]
    with client.open_input_stream(manifests[0]) as file:
        assert json.loads(file.read())["kind"] == "checkpoint"
    with pytest.raises(OSError, match=r"AccessDenied|ACCESS_DENIED"):
        client.delete_file(manifests[0])


def test_grpcurl_calls_a_service_without_protos(job: str, stack: Path) -> None:
    token = dict(line.split() for line in (stack / "tokens").read_text().splitlines())["engineer"]
    words = said(
        grpcurl(), "-plaintext", "-H", f"authorization: Bearer {token}", "-d",
        json.dumps({"name": job}), (stack / "endpoints" / "scheduler").read_text().strip(),
        "tutti.scheduler.v1.SchedulerService/GetJob",
    )  # fmt: skip
    assert json.loads(words)["state"] == "JOB_STATE_DONE"


def test_promtool_accepts_the_metrics_of_a_service(undisturbed: Any, stack: Path) -> None:
    address = (stack / "endpoints" / "scheduler.metrics").read_text().strip()
    with fetch(f"http://{address}/metrics", seconds=10) as answer:
        said(promtool(), "check", "metrics", words=answer.read().decode())
