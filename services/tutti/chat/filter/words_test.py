"""Words in place of a withheld text are in the language of the conversation."""

import pytest

from tutti.chat.filter.words import WORDS, Withheld, language_of, words_for


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("How do I bake a cake with my daughter?", "en"),
        ("Wie backe ich mit meiner Tochter einen Kuchen, der nicht zu süß ist?", "de"),
        ("¿Cómo hago un pastel para la fiesta de mi hija?", "es"),
        ("", "en"),
        ("Как испечь торт?", "en"),
    ],
)
def test_words_are_in_the_language_of_the_text(text: str, language: str) -> None:
    assert language_of(text) == language
    for withheld in Withheld:
        assert words_for(withheld, text) == WORDS[language][withheld]
