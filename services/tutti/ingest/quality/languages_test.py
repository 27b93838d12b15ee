"""Languages: small texts, their macro-languages, and what is none."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.ingest.quality import languagemodel
from tutti.ingest.quality.languagemodel import model
from tutti.ingest.quality.languages import CODES, KNOWN, SAMPLE, among, identified, identify, languages, sample, schema

SENTENCES = {
    "en": "The library is open every day, and its books can be read by everybody who lives in the town.",
    "de": "Die Bibliothek ist jeden Tag geöffnet, und ihre Bücher dürfen alle lesen, die in der Stadt wohnen.",
    "fr": "La bibliothèque est ouverte tous les jours, ses livres peuvent être lus par tous les habitants de la ville.",
    "es": "La biblioteca está abierta todos los días y cualquiera que viva en la ciudad puede leer sus libros.",
    "ru": "Библиотека открыта каждый день, и её книги может читать каждый житель города.",
    "ja": "図書館は毎日開いていて、町に住む人は誰でも本を読むことができます。",
    "ar": "المكتبة مفتوحة كل يوم ويمكن لجميع سكان المدينة قراءة كتبها.",
}
CROATIAN = "Knjižnica je otvorena svaki dan, a njezine knjige mogu čitati svi koji žive u gradu."
NORWEGIAN = "Biblioteket er åpent hver dag, og bøkene kan leses av alle som bor i byen."


@pytest.mark.parametrize("code", SENTENCES)
def test_a_sentence_is_told_by_its_language(code: str) -> None:
    assert identify(SENTENCES[code]).code == code


def test_neighbours_share_a_macro_language() -> None:
    assert (identify(CROATIAN).macro, identify(NORWEGIAN).macro) == ("sh", "no")


@pytest.mark.parametrize("text", ["", "\n\n\n", "1234 5678", "a" * 100, "\U0001f600" * 9, "\u200b\u200d"])
def test_what_is_no_language_is_undetermined(text: str) -> None:
    found = identify(text)
    assert (found.code, found.macro) == ("und", "und")


def test_a_long_text_is_read_in_pieces_from_its_begin_to_its_end() -> None:
    text = "".join(chr(65 + number % 26) for number in range(100_000))
    taken = sample(text)
    assert (len(taken), taken[:10], taken[-10:]) == (SAMPLE + 3, text[:10], text[-10:])
    assert sample(text[:SAMPLE]) == text[:SAMPLE]


def test_the_languages_that_are_known_are_those_of_the_model() -> None:
    assert set(model().codes) == CODES
    assert {"zh", "sh", "und"} < KNOWN


def test_a_corpus_asks_for_languages_or_macro_languages() -> None:
    found = languages(pa.array([SENTENCES["en"], CROATIAN, "", SENTENCES["de"]]))
    assert found.schema == schema()
    assert among(found, ["en", "sh"]).tolist() == [True, True, False, False]
    assert languages(pa.array([], pa.string())).num_rows == 0


@pytest.mark.skipif(languagemodel.native().library is None, reason=languagemodel.native().why_not)
@settings(max_examples=20)
@given(st.lists(st.text(max_size=300) | st.sampled_from(list(SENTENCES.values())), min_size=1, max_size=4))
def test_kernel_and_numpy_add_to_the_same_bits(texts: list[str]) -> None:
    read = [text.encode() for text in texts]
    scores = languagemodel.score(read)
    assert all((row == languagemodel.sums(each)).all() for row, each in zip(scores, read, strict=True))


def test_what_is_told_of_a_text_does_not_depend_on_its_neighbours() -> None:
    texts = [*SENTENCES.values(), "", CROATIAN, "\n"]
    assert identified(texts) == [identify(text) for text in texts]
