"""Tokenizers beside others: what is counted, which are found, and what is refused."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tutti.cli import tokenizers
from tutti.cli.failures import Failure
from tutti.cli.tokenizers import CODE, FILE, installed, measured, samples

TEXTS = ["the lamp and the mill and the lamp", "grün wie das Gras, grün"]


@pytest.fixture
def artefact(tmp_path: Path) -> Path:
    path = tmp_path / FILE
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=270, initial_alphabet=alphabet))
    library.save(str(path))
    return path


def test_bytes_a_token_are_counted_for_every_sample_and_tokenizer(artefact: Path) -> None:
    rows = measured({"a": artefact, "b": artefact}, {"one": TEXTS[:1], "two": TEXTS})
    assert [(row["sample"], row["tokenizer"]) for row in rows] == [
        ("one", "a"),
        ("one", "b"),
        ("two", "a"),
        ("two", "b"),
    ]
    library = Tokenizer.from_file(str(artefact))
    assert rows[0]["tokens"] == len(library.encode(TEXTS[0]).ids)
    assert rows[2]["bytes"] == sum(len(text.encode()) for text in TEXTS)
    assert rows[2]["bytes_a_token"] == round(rows[2]["bytes"] / rows[2]["tokens"], 3)
    assert rows[0]["vocabulary"] == 270


def test_samples_are_files_and_folders_of_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "b.txt").write_text("b")
    (tmp_path / "deep" / "er" / "a.txt").write_text("ä")
    (tmp_path / "deep" / "c.png").write_bytes(b"\x89PNG\xff")
    (tmp_path / "deep" / "empty").write_text("")
    assert samples([tmp_path / "deep", tmp_path / "deep" / "b.txt"]) == {
        str(tmp_path / "deep"): ["b", "ä"],
        str(tmp_path / "deep" / "b.txt"): ["b"],
    }
    monkeypatch.setattr(tokenizers, "SAMPLE_BYTES", 2)
    (tmp_path / "long").write_text("xä and more")
    assert samples([tmp_path / "long"]) == {str(tmp_path / "long"): ["x"]}
    (code,) = samples([])
    assert code == CODE
    with pytest.raises(Failure, match="has no text in UTF-8"):
        samples([tmp_path / "deep" / "c.png"])


def test_tokenizers_in_the_cache_of_hugging_face_are_found(tmp_path: Path, artefact: Path) -> None:
    snapshot = tmp_path / "hub" / "models--some--model" / "snapshots" / "0f"
    snapshot.mkdir(parents=True)
    (snapshot / FILE).write_bytes(artefact.read_bytes())
    for environment in ({"HF_HOME": str(tmp_path)}, {"HF_HUB_CACHE": str(tmp_path / "hub")}):
        assert installed(environment) == {"some/model": snapshot / FILE}
    assert installed({"HF_HOME": str(tmp_path / "none")}) == {}


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(Failure, match=r"bad\.json is no tokenizer\.json"):
        measured({"bad": tmp_path / "bad.json"}, {"one": TEXTS})
