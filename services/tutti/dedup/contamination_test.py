"""Contamination: what a plain search by tuples of words finds, whatever the batches; with and without the kernel."""

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from tutti.dedup import contamination, grams
from tutti.dedup.contamination import LEAST, Contaminated, Evaluation, Sought, TooManyTexts
from tutti.dedup.shingles import mix, spelled, words_of
from tutti.native.native import Kernel

VOCABULARY = ["one", "Two", "THREE", "vier", "f\u00fcnf", "6", "\u4e03"]


def batches(texts: dict[str, str], size: int) -> list[pa.RecordBatch]:
    table = pa.table({"doc_id": list(texts), "text": pa.array(texts.values(), pa.large_string())})
    return table.to_batches(size)  # type: ignore[no-any-return]


def found(texts: dict[str, str], documents: dict[str, str], sought: Sought, size: int = 3) -> list[Contaminated]:
    evaluation = Evaluation(batches(texts, size), sought)
    return sorted(each for batch in batches(documents, size) for each in evaluation.found(batch))


def ngrams(words: Sequence[str], count: int) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + count]) for at in range(len(words) - count + 1)}


def by_force(texts: dict[str, str], documents: dict[str, str], sought: Sought) -> list[Contaminated]:
    """The definition, for words between spaces that differ in capitals alone."""
    answer = []
    for name, document in sorted(documents.items()):
        best: Contaminated | None = None
        for text in sorted(texts):
            words = texts[text].lower().split()
            count = sought.words if len(words) >= sought.words else len(words)
            if not words or count < min(LEAST, sought.words):
                continue
            held = ngrams(words, count)
            share = len(held & ngrams(document.lower().split(), count)) / len(held)
            if share > sought.share and (best is None or share > best.share):
                best = Contaminated(name, text, share)
        answer += [best] if best else []
    return answer


def made(seed: int) -> tuple[dict[str, str], dict[str, str]]:
    """Texts of few words, so that n-grams meet by chance; documents that hold parts of them."""
    source = random.Random(seed)

    def text(most: int) -> str:
        return " ".join(source.choices(VOCABULARY[:6], k=source.randrange(most)))

    texts = {f"t{number:02}": text(40) for number in range(25)}
    documents: dict[str, str] = {}
    for number in range(60):
        words = source.choice(list(texts.values())).split() or ["none"]
        begin = source.randrange(len(words))
        part = " ".join(words[begin : begin + source.randrange(1, 30)])
        documents[f"d{number:02}"] = f"{text(60)} {part if source.random() < 0.6 else ''} {text(60)}"
    return texts, documents


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sought", [Sought(), Sought(3, 0.3), Sought(8, 0.7), Sought(9, 0.05), Sought(1, 0.9)])
def test_what_holds_n_grams_of_a_text_is_found_and_nothing_else(seed: int, sought: Sought) -> None:
    texts, documents = made(seed)
    expected = by_force(texts, documents, sought)
    assert expected
    for size in (1, 7, 100):
        assert found(texts, documents, sought, size) == expected


def test_names_that_meet_by_chance_are_told_apart_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, documents = made(1)
    expected = by_force(texts, documents, Sought(6))
    assert len(expected) < 50, "some documents hold none"

    monkeypatch.setattr(grams, "mix", lambda values: mix(values) & np.uint64(0xF00 << 52))
    assert {each.doc_id for each in found(texts, documents, Sought(6))} == {each.doc_id for each in expected}


def test_without_the_kernel_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, documents = made(2)
    expected = found(texts, documents, Sought(4))
    monkeypatch.setattr("tutti.dedup.shingles.native", lambda: Kernel("minhash", None, "none in this test"))
    assert found(texts, documents, Sought(4)) == expected


def test_capitals_accents_and_punctuation_have_no_say() -> None:
    text = "Where did the first Caf\u00e9 of Vienna open its doors, and in which year was it?"
    document = "Quiz\n\nWHERE did the -- first cafe of Vienna\nopen: its doors and in which year was it"
    assert found({"t": text}, {"d": document}, Sought()) == [Contaminated("d", "t", 1.0)]


def test_a_text_shorter_than_an_n_gram_is_one_of_all_its_words() -> None:
    texts = {"eight": "a b c d e f g h", "seven": "k l m n o p q"}
    documents = {"holds": "x a b c d e f g h y", "parts": "b c d e f g h k l m n o p q"}
    assert found(texts, documents, Sought()) == [Contaminated("holds", "eight", 1.0)]


def test_no_texts_contaminate_nothing() -> None:
    assert found({}, {"d": "a b c"}, Sought()) == []
    assert found({"t": ""}, {"d": "a b c"}, Sought(1)) == []


def test_more_texts_than_can_be_held_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contamination, "LARGEST", 10)
    with pytest.raises(TooManyTexts, match="more than 10 n-grams"):
        found({"t": " ".join(map(str, range(40)))}, {}, Sought())


def test_words_spelled_are_the_words_that_are_named() -> None:
    text = "A\u00e9\u0301, b\u200bc \u4e03\u4e03x-"
    assert len(spelled(text.encode())) == len(words_of(pa.array([text]))[0]) == 6
    assert spelled(b"x") == spelled(b"X!") != spelled(b"y")
