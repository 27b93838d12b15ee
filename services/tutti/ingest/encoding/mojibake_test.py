"""What was decoded wrongly is repaired, and nothing else is touched."""

import ftfy.bad_codecs  # noqa: F401  (sloppy-windows-1252)
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.ingest.encoding.mojibake import repaired
from tutti.ingest.encoding.normalisation import utf8

SENTENCES = [
    "L\u2019été à Paris, où l\u2019on boit du café.",
    "El niño comió aquí “mañana” \u2013 ¿no?",
    "Müller läuft über die Straße.",
    "Це речення українською мовою.",
    "東京は日本の首都です。",
    "It costs €5… or £4™.",
]


@pytest.mark.parametrize("text", SENTENCES)
@pytest.mark.parametrize("codec", ["latin-1", "sloppy-windows-1252"])
@pytest.mark.parametrize("times", [1, 2])
def test_what_was_decoded_wrongly_is_as_it_was_before(text: str, codec: str, times: int) -> None:
    wrong = text
    for _ in range(times):
        wrong = wrong.encode().decode(codec)
    assert wrong != text
    assert _again(f"A line.\n{wrong}\nAnother.") == f"A line.\n{text}\nAnother."


@pytest.mark.parametrize(
    "text",
    [
        *SENTENCES,
        "São Paulo, naïve façade, Ångström, ÂGE, Ã, £5 \u2013 «là»",
        "The bytes of é read as Latin-1 are Ã©, and those of à the same way: Ã\xa0. É is another letter.",
        "".join(map(chr, range(32, 0x250))),
        "\ud800 \ufffd",
    ],
)
def test_what_was_decoded_rightly_stays(text: str) -> None:
    assert _again(text) == text


@given(text=st.text(st.sampled_from("aé€\u2019ÂÃâ\x80\x99\xa0\xad© \n\ud800")))
def test_any_text_has_an_answer_line_by_line(text: str) -> None:
    assert _again(text).count("\n") == text.count("\n")
    assert _again(text).split("\n") == [_again(line) for line in text.split("\n")]


def _again(text: str) -> str:
    return repaired(utf8(text)).decode("utf-8", "surrogatepass")
