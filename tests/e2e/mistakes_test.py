"""A user's mistake ends with one line that says what to do, exit code 2, and nothing half-done."""

import contextlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.command import TINY, Result, platform, run_process, tiny, tutti
from tests.faults.processes import family, until

# Root obeys the modes of files too, once it may not override them.
BOUND_BY_MODES = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def assert_one_line(result: Result, code: int, *words: str) -> None:
    """It ended with this code and one line that holds the words; on a slow machine it said before that it waits."""
    assert result.code == code, result.err
    assert result.out == ""
    lines = [line for line in result.err.splitlines() if not line.startswith("waits for the platform of ")]
    assert len(lines) == 1, result.err
    assert lines[0].startswith("tutti: ")
    for each in words:
        assert each in lines[0]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.stepps=3", "train.stepps: expected a key of recipes (the nearest is train.steps)"),
        ("train.steps=many", "train.steps: expected a valid integer, got 'many'"),
        ("train.ranks=9", "train.ranks: expected at most train.microbatches (8)"),
        ("train.batch=15", "are both set; or leave one of them out"),
        ("train.threads=100000", "train.threads: expected"),
        ("data.context=1000000", "lower the tokens of a row (data.context"),
        ("input.path=/nowhere/at/all", "input.path"),
        ("nonsense", "KEY=VALUE"),
    ],
)
def test_a_wrong_recipe_is_refused_by_field(override: str, words: str, served: Path, pages: Path) -> None:
    assert_one_line(tutti(*tiny(served, pages, override)), 2, words)


@pytest.mark.parametrize("override", ["train.stepps=3", "size=micro", "input.path=/nowhere/at/all"])
def test_a_wrong_recipe_is_refused_in_the_same_words_before_a_platform_is_started(
    override: str, served: Path, pages: Path, tmp_path: Path
) -> None:
    alone = tutti(*tiny(tmp_path / "new", pages, override))
    assert alone.code == 2
    assert alone.err.splitlines()[-1] == tutti(*tiny(served, pages, override)).err.splitlines()[-1]
    assert not (tmp_path / "new").exists()


def test_more_ranks_than_slots_are_refused_on_one_machine_where_no_agent_can_join(served: Path, pages: Path) -> None:
    wide = ("train.microbatches=1000", "train.ranks=1000")
    arguments = [each for override in wide for each in ("--set", override)]
    checked = tutti("recipes", "check", TINY, *arguments, "--set", f"input.path={pages}", "--data-dir", served)
    assert checked.code == 2
    assert "train.ranks: expected at most" in checked.out
    result = tutti(*tiny(served, pages, *wide))
    assert result.code == 2
    assert "`tutti up --agents N`" in result.err


def test_an_empty_folder_is_refused(served: Path, tmp_path: Path) -> None:
    assert_one_line(tutti(*tiny(served, tmp_path)), 2, "input.path", "this one is empty")


def test_only_unreadable_pages_fail_the_run_with_the_reasons(served: Path, tmp_path: Path) -> None:
    (tmp_path / "picture.html").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8)
    result = tutti(*tiny(served, tmp_path))
    assert result.code == 1
    assert "binary" in result.err
    assert "Traceback" not in result.err


def test_a_refused_recipe_leaves_no_run_behind(served: Path, pages: Path) -> None:
    def runs() -> list[str]:
        return [run["name"] for run in tutti("runs", "ls", "-o", "json", "--data-dir", served).json()]

    before = runs()
    assert tutti(*tiny(served, pages, "train.steps=many")).code == 2
    assert runs() == before


def test_pages_that_cannot_be_read_are_left_out_with_their_reasons(served: Path, pages: Path, tmp_path: Path) -> None:
    for page in pages.iterdir():
        shutil.copy(page, tmp_path / page.name)
    (tmp_path / "latin.html").write_bytes("<p>Gr\xfc\xdfe aus M\xfcnchen, ".encode("latin-1") * 40)
    (tmp_path / "picture.html").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8)
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.7\n" + bytes(range(256)))
    with (tmp_path / "huge.html").open("wb") as huge:
        huge.truncate(100 << 20)
    result = tutti(*tiny(served, tmp_path, "input.limit=0", "train.steps=1", "train.warmup=0"))
    assert result.code == 0, result.err
    ingest = result.json()["ingest"]
    assert (ingest["files"], ingest["rejected"]) == (24, 3)
    counts = {each["reason"]: each["pages"] for each in ingest["left_out"]}
    assert counts == {"binary": 1, "pdf": 1, "too_large": 1}
    lists = "".join(path.read_text() for path in (served / "blobs" / "ingest" / "rejections").iterdir())
    assert "huge.html" in lists
    assert "picture.html" in lists
    assert "latin.html" not in lists


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give --data FOLDER or --site URL"),
        (("--data", "nobody"), "expected a folder or a file; it does not exist"),
        (("--data", "recipes/tiny.yaml"), "to run a recipe, give it without --data"),
        (("--site", "docs"), "expected a URL"),
        (("--site", "https://docs.example/"), "give --contact too"),
        (("recipes/tiny.yaml", "--data", "recipes"), "give a RECIPE, or --data"),
        (("recipes/tiny.yaml", "train.steps=5"), "type `tutti run recipes/tiny.yaml --set train.steps=5 --data-dir"),
    ],
)
def test_what_a_run_reads_is_said_once(arguments: tuple[str, ...], words: str, served: Path) -> None:
    result = tutti("run", *arguments, "--data-dir", served)
    assert result.code == 2
    assert words in result.err


def test_own_data_needs_no_recipe(served: Path, pages: Path) -> None:
    planned = tutti("run", "--data", pages, "--dry-run", "-o", "json", "--data-dir", served)
    assert planned.code == 0, planned.err
    assert planned.json()[0]["name"] == "ingest"
    printed = tutti("recipes", "new", "--data", pages)
    assert printed.code == 0
    assert f'path: "{pages}"' in printed.out


def test_a_check_tells_all_that_is_wrong_and_a_plan_what_a_run_would_do(served: Path, pages: Path) -> None:
    wrong = ("--set", "quality.mask=shoe", "--set", "tokenizer.pattern=(")
    result = tutti("recipes", "check", TINY, *wrong, "--set", f"input.path={pages}", "--data-dir", served)
    assert result.code == 2
    assert [line.partition(":")[0] for line in result.out.splitlines()] == ["quality.mask", "tokenizer.pattern"]
    assert "2 problems" in result.err
    plan = tutti("recipes", "plan", "--data", pages, "--data-dir", served)
    assert plan.code == 0, plan.err
    assert "input: 20 files" in plan.out
    assert "by `make run` on two cores" in plan.out


def test_a_missing_recipe_is_misuse(served: Path) -> None:
    result = tutti("run", "no-such-recipe.yaml", "--data-dir", served)
    assert result.code == 2
    assert "no-such-recipe.yaml" in result.err


def test_nobody_serves_a_data_directory(tmp_path: Path) -> None:
    result = tutti("jobs", "ls", "--data-dir", tmp_path)
    assert result.code == 3
    assert "tutti up" in result.err


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    result = tutti("run", TINY, "--data-dir", taken)
    assert result.code == 2
    assert "taken" in result.err


def test_a_data_directory_of_a_newer_version_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("99\n")
    assert_one_line(tutti("up", "--data-dir", tmp_path), 2, "version 99", "install the newer Tutti")
    assert os.listdir(tmp_path) == ["version"]


def test_a_data_directory_that_may_not_be_written(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    result = run_process("up", "--data-dir", locked / "data", before=BOUND_BY_MODES)
    assert_one_line(result, 1, str(locked), "Permission denied", "give a folder that you may write with --data-dir")
    assert list(locked.iterdir()) == []


def test_settings_that_a_checkout_brought_along_start_no_program(tmp_path: Path) -> None:
    (folder := tmp_path / ".tutti").mkdir(mode=0o700)
    command = json.dumps(["/bin/sh", "-c", f"touch {tmp_path}/started"])
    (folder / "tutti.toml").write_text(f"[supervisor]\nagent_command = {command}\n")
    with contextlib.chdir(tmp_path):
        assert_one_line(tutti("up", "--detach"), 2, "supervisor.agent_command", "--data-dir .tutti")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".tutti"]


def test_a_data_directory_that_another_process_serves(served: Path) -> None:
    holder = json.loads((served / "processes.json").read_text())["supervisor"]["pid"]
    assert_one_line(tutti("up", "--data-dir", served), 1, f"in use by process {holder} (tutti up)", "--data-dir")
    assert tutti("runs", "ls", "--data-dir", served).code == 0


def test_a_platform_that_is_up_already_is_no_mistake_to_detach_from(served: Path) -> None:
    result = tutti("up", "--detach", "--data-dir", served)
    assert (result.code, result.out) == (0, "")
    assert f"{served} is up already at {(served / 'endpoint').read_text().strip()}" in result.err


def test_commands_wait_for_a_host_that_is_being_restarted(tmp_path: Path) -> None:
    with platform(tmp_path, agents=0):
        record = json.loads((tmp_path / "processes.json").read_text())
        (host,) = [each["pid"] for each in record["children"] if each["name"] == "host"]
        os.kill(host, signal.SIGKILL)
        until(lambda: not (tmp_path / "endpoint").exists(), seconds=20, what="the host to be missed")
        result = tutti("runs", "ls", "--data-dir", tmp_path)
    assert result.code == 0, result.err


def test_a_port_that_is_in_use(served: Path, tmp_path: Path) -> None:
    address = (served / "endpoint").read_text().strip()
    other = tmp_path / "other"
    result = tutti("up", "--data-dir", other, "--port", address.rpartition(":")[2])
    assert_one_line(result, 1, f"cannot listen at {address}", "--port")
    assert family(other) == []
    assert not (other / "endpoint").exists()


def test_what_does_not_exist_is_named_with_the_way_to_see_what_does(served: Path) -> None:
    result = tutti("checkpoints", "show", "none", "--data-dir", served)
    assert_one_line(result, 1, "checkpoints/none does not exist", "`tutti checkpoints ls`")
    unknown = tutti("gc", "--job", "none", "--dry-run", "--data-dir", served)
    assert_one_line(unknown, 1, "jobs/none does not exist", "`tutti jobs ls`")
    for command in (("checkpoints", "prune", "none"), ("checkpoints", "ls", "--filter", "job=none")):
        assert_one_line(tutti(*command, "--data-dir", served), 1, "jobs/none does not exist", "`tutti jobs ls`")


def test_help_teaches_and_version_is_one_line() -> None:
    assert "tutti run --data FOLDER" in tutti("--help").out
    assert len(tutti("version").out.splitlines()) == 1
