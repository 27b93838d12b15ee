"""What is asked of every service when one of them is away: named, never left out."""

import json
from collections.abc import Iterator

import pytest

from tutti.chassis.config.datadir import DataDir
from tutti.chassis.demo_test import eventually, running
from tutti.chassis.rpc.kinds import owners
from tutti.cli.app import build
from tutti.cli.failures import guarded

NOBODY = "127.0.0.1:1"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataDir]:
    """A platform each of whose services has an address of its own; one host answers at all of them but lineage's."""
    with running(tmp_path_factory.mktemp("host")) as demo:
        demo.create("ingests/a")
        data_dir = DataDir(tmp_path_factory.mktemp("stack"))
        data_dir.write("tokens", (demo.data_dir.path / "tokens").read_bytes())
        (data_dir.path / "tokens").chmod(0o600)
        for service in set(owners().values()):
            data_dir.announce(demo.host.address, service)
        yield data_dir


def tutti(data_dir: DataDir, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    """Exit code, output, errors."""
    command = [*arguments, "--data-dir", str(data_dir.path)]
    with pytest.raises(SystemExit) as ended:
        guarded(lambda: build()(command, standalone_mode=False))
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


@pytest.mark.parametrize("question", [("export", "--canonical"), ("events", "dead", "ls")])
def test_without_the_address_of_one_service_nothing_is_printed_and_it_is_named(
    question: tuple[str, ...], stack: DataDir, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"tutti: nobody serves lineage of {stack.path}: start the platform with `tutti up"
    code, out, err = tutti(stack, capsys, *question)
    assert (code, out) == (3, "")
    assert err.startswith(words)


def test_the_doctor_finds_a_service_without_an_address(stack: DataDir, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = tutti(stack, capsys, "doctor", "-o", "json")
    bad = [(each["service"], each["check"]) for each in json.loads(out) if not each["ok"]]
    assert (code, bad) == (1, [("lineage", "address")])


def test_events_are_sent_again_since_a_time_or_only_counted(stack: DataDir, capsys: pytest.CaptureFixture[str]) -> None:
    def republish(*arguments: str) -> tuple[object, str]:
        return tutti(stack, capsys, "events", "republish", "ingest", *arguments)[:2]

    def published() -> list[bool]:
        _, out, _ = tutti(stack, capsys, "events", "tail", "ingest", "-o", "json")
        return [json.loads(line)["published"] for line in out.splitlines()]

    eventually(lambda: published() == [True])
    assert republish("--since", "2020-01-01", "--dry-run") == (0, "1 event would be sent again\n")
    assert published() == [True]
    assert republish("--since", "2020-01-01T00:00:00+0100") == (0, "1 event is sent again\n")
    assert republish("--since", "2999-01-01") == (0, "0 events are sent again\n")
    eventually(lambda: published() == [True])


def test_events_are_told_in_sentences_of_one_resource_and_from_where_a_reader_was(
    stack: DataDir, capsys: pytest.CaptureFixture[str]
) -> None:
    def tail(*arguments: str) -> tuple[object, str, str]:
        return tutti(stack, capsys, "events", "tail", *arguments)

    code, out, _ = tail("ingest")
    assert (code, out.split("  ", 1)[1].split(" ")[0]) == (0, "ingests/a")
    (event,) = map(json.loads, tail("ingest", "-o", "json")[1].splitlines())
    assert tail("ingests/a", "-o", "json")[1].count("\n") == 1
    assert tail("ingests/none")[0] == 1
    assert tail("ingest", "--after", event["id"]) == (0, "", "")
    assert "after: expected the id of an event" in tail("ingest", "--after", "none")[2]


def test_the_doctor_prints_problems_and_a_line_for_each_service_and_ends_with_its_verdict(
    stack: DataDir, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tutti(stack, capsys, "doctor")[1].splitlines()
    assert out[-1].startswith("BAD: 1 of ")
    assert "needs attention: lineage: address: nobody serves lineage" in out[-1]
    assert [line.split()[1] for line in out if line.startswith("BAD  ")] == ["lineage"]
    sound = [line.split()[1] for line in out if line.startswith("ok   ")]
    assert sound == sorted(set(sound))
    assert "ingest" in sound


def test_the_doctor_prints_every_check_if_it_is_asked_to(stack: DataDir, capsys: pytest.CaptureFixture[str]) -> None:
    every = json.loads(tutti(stack, capsys, "doctor", "-o", "json")[1])
    out = tutti(stack, capsys, "doctor", "--all")[1].splitlines()
    assert len(out) == len(every) + 2
    for each in every:
        mark = "ok " if each["ok"] else "BAD"
        assert any(line.startswith(f"{mark}  {each['service']:14} {each['check']}: ") for line in out)


def test_a_service_that_does_not_answer_at_its_address_is_named(
    stack: DataDir, capsys: pytest.CaptureFixture[str]
) -> None:
    stack.announce(NOBODY, "lineage")
    try:
        code, out, err = tutti(stack, capsys, "export", "--canonical")
        assert (code, out) == (3, "")
        assert err.startswith(f"tutti: lineage: no answer from {NOBODY}")
        code, out, _ = tutti(stack, capsys, "doctor")
        assert code == 1
        assert f"BAD  lineage        address: no answer from {NOBODY}" in out
    finally:
        stack.withdraw(NOBODY, "lineage")


def test_with_all_addresses_the_export_is_whole(stack: DataDir, capsys: pytest.CaptureFixture[str]) -> None:
    (address,) = {stack.endpoint(service) for service in owners().values()}
    assert address
    stack.announce(address, "lineage")
    try:
        code, out, _ = tutti(stack, capsys, "export", "--canonical")
        assert (code, [json.loads(line)["name"] for line in out.splitlines()]) == (0, ["ingests/a"])
        assert tutti(stack, capsys, "doctor")[0] == 0
    finally:
        stack.withdraw(address, "lineage")
