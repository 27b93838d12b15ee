"""How the command ends: words, codes, and where the traceback is."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tutti.chassis.errors import AlreadyExists, Unauthenticated, Unavailable
from tutti.chassis.rpc.channel import Unreachable
from tutti.chassis.rpc.locator import locate
from tutti.cli.app import build
from tutti.cli.failures import DEBUG_VARIABLE, Failure, guarded
from tutti.client import connect


def tutti(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from tutti.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})


def raising(error: BaseException) -> Callable[[], object]:
    def work() -> object:
        raise error

    return work


def ended(error: BaseException, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as caught:
        guarded(raising(error))
    assert isinstance(caught.value.code, int)
    return caught.value.code, capsys.readouterr().err


def test_a_proxy_with_a_password_is_no_argument(tmp_path: Path) -> None:
    url, where = "http://somebody:correct-horse@127.0.0.1:9", ("--address", "127.0.0.1:9", "--data-dir", str(tmp_path))
    refused = tutti("runs", "ls", *where, "--proxy", url)
    assert (refused.returncode, "TUTTI_PROXY" in refused.stderr, "correct-horse" in refused.stderr) == (2, True, False)
    variables = {"TUTTI_PROXY": url, "TUTTI_TOKEN": "unknown"}
    assert tutti("runs", "ls", *where, **variables).returncode == 3


def test_a_platform_that_does_not_run_is_one_sentence(tmp_path: Path) -> None:
    done = tutti("runs", "ls", "--data-dir", str(tmp_path))
    assert done.returncode == 3
    assert done.stderr == (
        f"tutti: nobody serves {tmp_path}: start the platform with `tutti up --detach --data-dir {tmp_path}`\n"
    )


def test_a_service_that_is_nowhere_is_told_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r", or say where ingest is with the setting services\.ingest$"):
        locate("ingest", {}, tmp_path)


def test_advice_is_given_once_and_only_for_an_address_where_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    code, words = ended(Unreachable("nobody there"), capsys)
    assert (code, words.count("tutti up")) == (3, 1)
    code, words = ended(Unreachable("nobody there: start it with `tutti up`"), capsys)
    assert (code, words.count("tutti up")) == (3, 1)
    code, words = ended(Unavailable("the database is away"), capsys)
    assert (code, words) == (3, "tutti: the database is away [UNAVAILABLE]; try again\n")


def test_a_name_that_is_taken_is_told_without_digests(capsys: pytest.CaptureFixture[str]) -> None:
    code, words = ended(AlreadyExists("campaigns/a", ours="blake3:1", theirs="blake3:2"), capsys)
    assert (code, "campaigns/a exists already" in words, "blake3" in words) == (1, True, False)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(5, "Input/output error"), "tutti: [Errno 5] Input/output error; the traceback is in "),
        (ValueError("odd\nthing"), "tutti: ValueError: odd thing; this is a defect of ours; the traceback is in "),
    ],
)
def test_what_nobody_foresaw_is_one_line_and_its_traceback_is_in_a_file(
    error: Exception, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv(DEBUG_VARIABLE, raising=False)
    code, said = ended(error, capsys)
    assert code == 1
    assert said.startswith(words)
    assert said.count("\n") == 1
    assert "Traceback" in Path(said.rpartition(" in ")[2].strip()).read_text()


def test_a_full_disk_says_what_to_do_and_keeps_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    error = OSError(28, "No space left on device", "/a/file")
    assert ended(error, capsys) == (
        1,
        "tutti: [Errno 28] No space left on device: '/a/file': the disk is full; free some space, and try again\n",
    )


def test_the_traceback_is_printed_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DEBUG_VARIABLE, "1")
    code, said = ended(ValueError("odd"), capsys)
    assert code == 1
    assert said.startswith("Traceback")
    assert said.endswith("tutti: ValueError: odd; this is a defect of ours\n")


def test_a_failure_keeps_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(Failure("no", 130), capsys) == (130, "tutti: no\n")


def test_a_token_of_two_lines_is_refused_without_showing_it() -> None:
    with pytest.raises(Unauthenticated, match="exactly as it stands") as caught:
        connect(address="127.0.0.1:1", token="secret\n")  # noqa: S106 - not one
    assert "secret" not in str(caught.value)
    done = tutti("runs", "ls", "--address", "127.0.0.1:1", TUTTI_TOKEN="one\ntwo")  # noqa: S106
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "TUTTI_TOKEN" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["jobs", "shw"], "no command 'shw'; the nearest is show; see `tutti jobs --help`"),
        (["standing"], "no command 'standing'; there are agent, annotators, answers, audit, "),
        (["trace"], "give a RESOURCE, or --text TEXT, and one of them alone; see `tutti trace --help`"),
        (["jobs", "cancel"], "missing argument 'JOB'; see `tutti jobs cancel --help`"),
        (["version", "--loud"], "no such option '--loud'; see `tutti version --help`"),
    ],
)
def test_a_slip_on_the_command_line_is_one_line_as_any_failure_is(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        guarded(lambda: build()(arguments, prog_name="tutti", standalone_mode=False))
    said = capsys.readouterr().err
    assert caught.value.code == 2
    assert said.startswith(f"tutti: {words}")
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", ["recipes check RECIPE", "recipes check RECIPE --set a=FOLDER", "run RECIPE"])
def test_a_path_that_is_not_utf_8_is_refused_before_anything_is_done(command: str, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    (folder / "mine.yaml").write_text("input: {path: pages}\nsize: tiny\n")
    arguments = [
        each.replace("RECIPE", f"{folder}/mine.yaml").replace("FOLDER", str(folder)) for each in command.split()
    ]
    done = tutti(*arguments, "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 2
    assert "caf\\udce9" in done.stderr
    assert "expected a name in UTF-8; rename the file or folder, or give another" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_data_directory_whose_path_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    done = tutti("up", "--data-dir", str(folder))
    assert done.returncode == 1
    assert "expected a path in UTF-8; choose another" in done.stderr
    assert not folder.exists()
