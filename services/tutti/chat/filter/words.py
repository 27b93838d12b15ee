"""Words in place of a text that is withheld, in the language of the conversation."""

import re
from collections import Counter
from enum import Enum


class Withheld(Enum):
    """The side of a conversation that is withheld."""

    PROMPT = "prompt"
    ANSWER = "answer"


WORDS = {
    "en": {
        Withheld.PROMPT: "[The filter of this service does not let this request be answered.]",
        Withheld.ANSWER: "[The filter of this service withheld the rest of this answer.]",
    },
    "de": {
        Withheld.PROMPT: "[Der Filter dieses Dienstes lässt nicht zu, dass diese Anfrage beantwortet wird.]",
        Withheld.ANSWER: "[Der Filter dieses Dienstes hat den Rest dieser Antwort zurückgehalten.]",
    },
    "es": {
        Withheld.PROMPT: "[El filtro de este servicio no permite que se responda a esta petición.]",
        Withheld.ANSWER: "[El filtro de este servicio ha retenido el resto de esta respuesta.]",
    },
}
_COMMON = {
    "en": "the a an and or of to in is are was i you he she it we they my your this that what how do does for with not",
    "de": "der die das den dem ein eine und oder von zu im ist sind war ich du er sie es wir ihr mein dein dies wie "
    "für mit nicht",
    "es": "el la los las un una y o de en es son era yo tú él ella nosotros ellos mi tu este esto qué cómo para con no",
}
_LANGUAGES = {language: frozenset(words.split()) for language, words in _COMMON.items()}
_WORD = re.compile(r"\w+")


def language_of(text: str) -> str:
    """Return the language of WORDS whose common words are most frequent in a text; English if none is."""
    counts = Counter(_WORD.findall(text.lower()))
    found = {language: sum(counts[word] for word in words) for language, words in _LANGUAGES.items()}
    best = max(found.values())
    return next(language for language, count in found.items() if count == best)


def language_of_words(text: str) -> str:
    """Return the language of the words of `words_for` with which a text ends; English without any."""
    ends = {language: tuple(words.values()) for language, words in WORDS.items()}
    return next((language for language, each in ends.items() if text.endswith(each)), "en")


def words_for(withheld: Withheld, text: str) -> str:
    """Return what is said in place of a withheld text, in the language of the given text."""
    return WORDS[language_of(text)][withheld]
