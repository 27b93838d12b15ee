"""A checkpoint is sampled, and exported: the same seed gives the same text, and transformers reads the same model."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.e2e.command import checkpoints, platform, tiny, tutti
from tests.e2e.mistakes_test import assert_one_line

WORD = "quagga-wardrobe-meridian"  # in a prompt, to be looked for
PROMPTS = [f"The module {WORD} ", "caf\u00e9 <|endoftext|>\n\tdef", ""]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sample") / "data"


@pytest.fixture(scope="module")
def checkpoint(data_dir: Path, pages: Path) -> str:
    """The name of the last checkpoint of a tiny run, whose platform is down."""
    result = tutti(*tiny(data_dir, pages))
    assert result.code == 0, result.err
    summary = result.json()
    assert 20 in checkpoints(summary)
    (name,) = (each["name"] for each in summary["checkpoints"] if each["step"] == 20)
    return str(name)


def sampled(data_dir: Path, checkpoint: str, *more: str, prompts: tuple[str, ...] = tuple(PROMPTS)) -> dict:  # type: ignore[type-arg]
    asked = [part for prompt in prompts for part in ("--prompt", prompt)]
    result = tutti("sample", checkpoint, *asked, "--tokens", "24", *more, "-o", "json", "--data-dir", data_dir)
    assert result.code == 0, result.err
    return result.json()  # type: ignore[no-any-return]


def texts(found: dict) -> list[str]:  # type: ignore[type-arg]
    return [each["text"] for each in found["continuations"]]


def test_without_a_platform_one_is_started_for_the_time_being(data_dir: Path, checkpoint: str) -> None:
    result = tutti("sample", checkpoint, "--prompt", "The ", "--tokens", "5", "--data-dir", data_dir)
    assert result.code == 0, result.err
    assert result.out.startswith("The ")
    assert "[5 tokens; ended by: tokens]" in result.err
    assert not (data_dir / "endpoint").exists()


@pytest.fixture(scope="module")
def up(data_dir: Path, checkpoint: str) -> Iterator[None]:
    """The platform is up from the first test on that needs it."""
    with platform(data_dir):
        yield


@pytest.fixture(scope="module")
def exported(up: None, data_dir: Path, checkpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "out"
    result = tutti("checkpoints", "export", checkpoint, "--to", out, "-o", "json", "--data-dir", data_dir)
    assert result.code == 0, result.err
    assert sorted(file["name"] for file in result.json()["files"]) == sorted(path.name for path in out.iterdir())
    return out


def test_the_same_seed_gives_the_same_text_and_another_another(up: None, data_dir: Path, checkpoint: str) -> None:
    first, again = sampled(data_dir, checkpoint, "--seed", "7"), sampled(data_dir, checkpoint, "--seed", "7")
    assert first["name"] != again["name"]
    assert first["continuations"] == again["continuations"]
    assert first["result"]["content_digest"] == again["result"]["content_digest"]
    assert [each["prompt"] for each in first["continuations"]] == PROMPTS
    assert texts(sampled(data_dir, checkpoint, "--seed", "8")) != texts(first)
    assert texts(sampled(data_dir, checkpoint, "--seed", "7", prompts=(PROMPTS[0],))) == texts(first)[:1]
    known = tutti("samples", "ls", "-o", "json", "--data-dir", data_dir).json()
    assert {first["name"], again["name"]} <= {each["name"] for each in known}


def holding(folder: Path) -> list[Path]:
    """The files that have the word of a prompt among their bytes."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    assert found
    return [path for path in found if WORD.encode() in path.read_bytes()]


def test_what_was_asked_is_in_its_result_and_in_no_event_and_no_log(up: None, data_dir: Path, checkpoint: str) -> None:
    sampled(data_dir, checkpoint)
    assert holding(data_dir / "log") == holding(data_dir / "logs") == []
    assert holding(data_dir / "blobs" / "sampling") != []


def test_what_cannot_be_sampled_is_refused_in_a_line(up: None, data_dir: Path, checkpoint: str) -> None:
    nowhere = tutti("sample", "none/0/5", "--data-dir", data_dir)
    assert_one_line(nowhere, 1, "checkpoints/none/0/5 does not exist", "`tutti checkpoints ls`")
    vast = tutti("sample", checkpoint, "--prompt", "x" * 65_537, "--data-dir", data_dir)
    assert_one_line(vast, 2, "spec.prompts: expected at most 65536 bytes of text together, got 65537")
    long = tutti("sample", checkpoint, "--prompt", "word " * 5000, "--data-dir", data_dir)
    assert long.code == 1
    words = r"tutti: prompt 0 has \d+ tokens, the model's context is \d+; shorten it by at least \d+\n$"
    assert re.search(words, long.err)


def test_an_export_overwrites_nothing_and_leaves_nothing_half_done(
    exported: Path, data_dir: Path, checkpoint: str
) -> None:
    before = {path.name: path.read_bytes() for path in exported.iterdir()}
    again = tutti("checkpoints", "export", checkpoint, "--to", exported, "--data-dir", data_dir)
    assert_one_line(again, 2, "--to", "not an empty folder; name a new one")
    assert {path.name: path.read_bytes() for path in exported.iterdir()} == before
    other = exported.with_name("other")
    missing = tutti("checkpoints", "export", "none/0/5", "--to", other, "--data-dir", data_dir)
    assert_one_line(missing, 1, "checkpoints/none/0/5 does not exist")
    assert [path.name for path in exported.parent.iterdir()] == [exported.name]


def test_transformers_writes_the_same_greedy_text(exported: Path, data_dir: Path, checkpoint: str) -> None:
    greedy = sampled(data_dir, checkpoint, "--temperature", "0")
    tokenizer = AutoTokenizer.from_pretrained(exported, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(exported, local_files_only=True)
    end = json.loads((exported / "config.json").read_text())["eos_token_id"]
    for each in greedy["continuations"]:
        ids = tokenizer(each["prompt"])["input_ids"] or [end]
        with torch.no_grad():
            found = model.generate(torch.tensor([ids]), max_new_tokens=24)[0, len(ids) :].tolist()
        written = [token for token in found if token != end]
        assert tokenizer.decode(written) == each["text"]
        assert len(written) == each["tokens"]
