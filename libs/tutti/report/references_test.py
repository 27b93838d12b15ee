"""References: what is counted, which tokenizers are found, and what is refused."""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tutti.client.unusable import Unusable
from tutti.report.references import FILE, encodings, installed, measured, opened, references
from tutti.report.texts import Group

TEXTS = ("the lamp and the mill and the lamp", "grün wie das Gras, grün")


def trained() -> Tokenizer:
    """Of bytes: no text has anything that it does not know."""
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=270, initial_alphabet=alphabet))
    return library


LIBRARY = trained()


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("artefact") / FILE
    LIBRARY.save(str(path))
    return path


def cached(hub: Path, name: str, content: bytes) -> Path:
    snapshot = hub / f"models--{name.replace('/', '--')}" / "snapshots" / "0f"
    snapshot.mkdir(parents=True)
    (snapshot / FILE).write_bytes(content)
    return snapshot / FILE


def test_bytes_a_token_are_counted_for_every_group_and_tokenizer(artefact: Path) -> None:
    both = {"a": opened(artefact), "b": opened(artefact)}
    rows = measured(both, [Group("one", TEXTS[:1]), Group("two", TEXTS)])
    assert [(row["sample"], row["tokenizer"]) for row in rows] == [
        ("one", "a"),
        ("one", "b"),
        ("two", "a"),
        ("two", "b"),
    ]
    assert rows[0]["tokens"] == len(LIBRARY.encode(TEXTS[0]).ids)
    assert (rows[2]["documents"], rows[2]["bytes"]) == (2, sum(len(text.encode()) for text in TEXTS))
    assert rows[2]["bytes_a_token"] == round(rows[2]["bytes"] / rows[2]["tokens"], 3)
    assert rows[0]["vocabulary"] == 270


@given(st.lists(st.lists(st.text(), min_size=1).map(tuple), min_size=1))
def test_the_tokens_that_are_counted_are_the_bytes_that_are_counted(
    artefact: Path, texts: list[tuple[str, ...]]
) -> None:
    groups = [Group(str(at), some) for at, some in enumerate(texts)]
    for row, some in zip(measured({"a": opened(artefact)}, groups), texts, strict=True):
        ids = [LIBRARY.encode(text, add_special_tokens=False).ids for text in some]
        assert row["tokens"] == sum(map(len, ids))
        assert row["bytes"] == sum(len(LIBRARY.decode(each, skip_special_tokens=False).encode()) for each in ids)


def test_a_text_counts_whole_where_a_tokenizer_was_saved_to_cut_or_to_fill_it(tmp_path: Path) -> None:
    for library, path in ((trained(), tmp_path / "cuts.json"), (trained(), tmp_path / "fills.json")):
        if path.stem == "cuts":
            library.enable_truncation(3)
        else:
            library.enable_padding(length=1000)
        library.save(str(path))
        assert opened(path).counted(TEXTS) == sum(len(LIBRARY.encode(text).ids) for text in TEXTS)


def test_tokenizers_in_the_cache_of_hugging_face_are_found(tmp_path: Path, artefact: Path) -> None:
    path = cached(tmp_path / "hub", "some/model", artefact.read_bytes())
    for environment in ({"HF_HOME": str(tmp_path)}, {"HF_HUB_CACHE": str(tmp_path / "hub")}):
        assert installed(environment) == {"some/model": path}
    assert installed({"HF_HOME": str(tmp_path / "none")}) == {}


def test_one_that_cannot_be_read_is_left_out_of_those_that_were_found_and_named(tmp_path: Path, artefact: Path) -> None:
    cached(tmp_path, "a/damaged", b"{}")
    cached(tmp_path, "b/whole", artefact.read_bytes())
    wrong = list[str]()
    found = dict(references({"HF_HUB_CACHE": str(tmp_path)}, wrong.append))
    assert [name for name in found if not name.startswith("tiktoken/")] == ["b/whole"]
    (told,) = wrong
    assert told.startswith("a/damaged is left out: ")


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(Unusable, match=r"bad\.json is no tokenizer\.json"):
        opened(tmp_path / "bad.json")


def stands_for_tiktoken(asked: list[str]) -> tuple[ModuleType, ModuleType]:
    """As tiktoken is laid out: it has kept the files of one encoding, and asks the network for those of the other."""
    tiktoken: Any = ModuleType("tiktoken")
    load: Any = ModuleType("tiktoken.load")

    def fetch(place: str) -> bytes:
        asked.append(place)
        return b""

    def get_encoding(name: str) -> Any:
        if name == "unkept":
            load.read_file("https://elsewhere.test/unkept.tiktoken")

        def encode_ordinary_batch(texts: Sequence[str]) -> list[list[int]]:
            return [list(text.encode()) for text in texts]

        return SimpleNamespace(n_vocab=257, encode_ordinary_batch=encode_ordinary_batch)

    tiktoken.load, load.read_file = load, fetch
    tiktoken.list_encoding_names = lambda: ["unkept", "kept"]
    tiktoken.get_encoding = get_encoding
    return tiktoken, load


def test_encodings_of_tiktoken_are_found_without_asking_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    tiktoken, load = stands_for_tiktoken(asked)
    monkeypatch.setitem(sys.modules, "tiktoken", tiktoken)
    monkeypatch.setitem(sys.modules, "tiktoken.load", load)
    ((name, reference),) = encodings()
    assert (name, reference.vocabulary, reference.counted(TEXTS)) == (
        "tiktoken/kept",
        257,
        sum(len(text.encode()) for text in TEXTS),
    )
    assert asked == []
    vars(load)["read_file"]("a place")  # who uses it afterwards in this process may fetch
    assert asked == ["a place"]
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert list(encodings()) == []
