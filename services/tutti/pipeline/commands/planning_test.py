"""A plan in words: what runs, what is reused, what is known of it and what is not."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tutti.chassis.rpc.channel import Unreachable
from tutti.cli.app import build
from tutti.cli.failures import MISUSE, Failure
from tutti.contracts.pipeline.v1 import CheckRecipeResponse, Forecast, Stage
from tutti.pipeline.commands.fitting import Memory, check
from tutti.pipeline.commands.planning import as_json, rows, total
from tutti.pipeline.commands.sizes import duration, size

FREE = 1 << 30


def plan(*forecasts: Forecast) -> CheckRecipeResponse:
    stages = [
        Stage(name="ingest", reused=True, reuse_key="k", reason="reused"),
        Stage(name="dedup", reuse_key="k", reason="runs again: dedup/x.json is gone"),
        Stage(
            name="train", kind="train", reason="runs, or is reused if the stages before it give what they gave before"
        ),
    ]
    return CheckRecipeResponse(stages=stages, forecasts=forecasts)


ABOUT = Forecast(stage="dedup", memory_bytes=200 << 20)
MEASURED = Forecast(stage="dedup", seconds=3, disk_bytes=2000, basis="by runs/a, work x 1")
TRAINING = Forecast(stage="train", seconds=600, disk_bytes=100 << 20, memory_bytes=5 << 20, basis="by runs/a, work x 2")


def test_a_row_says_what_a_stage_does_and_on_what_its_figures_rest() -> None:
    ingest, dedup, train = rows(plan(MEASURED, TRAINING))
    assert ingest == {"stage": "ingest", "what": "reused", "time": "", "disk": "", "memory": "", "why": ""}
    assert (dedup["what"], dedup["why"]) == ("runs", "dedup/x.json is gone; by runs/a, work x 1")
    assert dedup["memory"] == "not known"
    assert rows(plan(ABOUT))[1]["memory"] == "about 200.0 MiB"
    assert list(train.values())[1:5] == ["runs, as its input is new", "10.0 min", "100.0 MiB", "at least 5.0 MiB"]


def test_the_sum_says_when_it_is_not_all_and_when_the_disk_is_too_small() -> None:
    time = "10.1 min, and some seconds for each stage to start"
    assert total(plan(MEASURED, TRAINING), FREE) == f"in all: {time}; 100.0 MiB of disk; 1.0 GiB are free"
    assert "and what is not known above" in total(plan(MEASURED, Forecast(stage="train")), FREE)
    assert "not enough" in total(plan(MEASURED, TRAINING), 10**7)
    assert total(CheckRecipeResponse(stages=[Stage(reused=True)]), FREE) == "all is reused: nothing runs"


def test_for_scripts_what_is_not_known_is_null() -> None:
    told = as_json(plan(MEASURED, Forecast(stage="train", basis="not known")), FREE)
    assert [each["seconds"] for each in told["stages"]] == [None, 3, None]
    assert (told["complete"], told["seconds"], told["input_files"]) == (False, 3, None)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "not known"), (0.01, "under 0.1 s"), (90, "90.0 s"), (120, "2.0 min"), (200_000, "2.3 days")],
)
def test_a_duration_in_words(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_a_size_in_words() -> None:
    assert [size(each) for each in (None, 12, 1536)] == ["not known", "12 B", "1.5 KiB"]
    assert size(3 << 40, "about") == "about 3.0 TiB"


@pytest.mark.parametrize(
    ("text", "count"), [("80GB", 80 * 10**9), ("64 GiB", 64 << 30), ("1.5mb", 1_500_000), ("100", 100)]
)
def test_a_number_of_bytes_as_people_write_it(text: str, count: int) -> None:
    assert Memory().convert(text, None, None) == count
    for wrong in (f"-{text}", f"{text}x", "0", "GB"):
        with pytest.raises(click.BadParameter, match="such as 80GB or 64GiB"):
            Memory().convert(wrong, None, None)


def test_a_training_process_that_fits_nowhere_is_refused_with_both_numbers() -> None:
    large = plan(Forecast(stage="train", rank_memory_bytes=3 * 10**9))
    check(large, 0, "")
    check(large, 3 * 10**9, "--memory")
    with pytest.raises(Failure, match=r"train needs at least 2\.8 GiB of memory, and nodes/a has 2\.7 GiB") as refused:
        check(large, 2_900_000_000, "nodes/a")
    assert refused.value.code == MISUSE
    reused = plan(Forecast(stage="ingest", rank_memory_bytes=3 * 10**9))
    check(reused, 1, "--memory")


def test_a_check_starts_nothing_and_needs_a_platform_only_for_what_may_be_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, popen = [], subprocess.Popen

    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        if "-m" not in command:
            return popen(command, **options)  # a compiler
        started.append(command)
        raise OSError("no platform is started here")

    monkeypatch.setattr(subprocess, "Popen", start)
    pages, recipe, data = tmp_path / "pages", tmp_path / "mine.yaml", tmp_path / "data"
    pages.mkdir()
    (pages / "one.txt").write_text("Once there was a text.\n" * 40)
    recipe.write_text("input: {path: pages}\nsize: tiny\ntrain: {steps: 4}\n")
    check = ["recipes", "check", str(recipe), "--data-dir", str(data)]
    sound = CliRunner().invoke(build(), check)
    assert sound.exit_code == 0, sound.output
    assert all(words in sound.stderr for words in ("train: ", "parameters", "tokens in a step", "at least"))
    long = CliRunner().invoke(build(), [*check, "--set", "data.context=4000", "-o", "json"])
    (train,) = json.loads(long.stdout)["forecasts"]
    assert int(train["step_tokens"]) % 4000 == 0 < int(train["parameters"])
    wrong = CliRunner().invoke(build(), [*check, "--set", "train.steps=none"])
    assert wrong.stdout.startswith("train.steps: expected")
    named = [*check, "--set", f"dedup.against=[datasets/{'a' * 64}]"]
    assert "dedup.against" in CliRunner().invoke(build(), named).stdout
    assert not started
    assert not data.exists()
    data.mkdir(mode=0o700)
    (data / "version").write_text("0.2\n")
    assert CliRunner().invoke(build(), check).exit_code == 0
    assert not started
    assert isinstance(CliRunner().invoke(build(), named).exception, Unreachable)
    assert not started


def test_a_check_waits_for_no_library_that_it_does_not_use(tmp_path: Path) -> None:
    """Each of them takes a part of the second or two that a check takes."""
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "one.txt").write_text("Once there was a text.\n" * 40)
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("input: {path: pages}\nsize: tiny\ntrain: {steps: 4}\n")
    program = (
        "import sys; from tutti.cli.app import build; "
        f"build()(['recipes', 'check', {str(recipe)!r}, '--data-dir', {str(tmp_path)!r}], standalone_mode=False); "
        "print(*{'torch', 'aiohttp', 'starlette', 'uvicorn', 'alembic', 'psycopg', 'ray', 'daft', 'kafka', 'tiktoken', "
        "'transformers', 'py3langid', 'tutti.chassis.rpc.server'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "\n"
