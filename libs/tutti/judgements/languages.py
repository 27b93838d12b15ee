"""The languages of simulated crowds, by name: what an answer is worth, what a prompt demands, what nobody looks at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tutti.judgements import letters, sentences, smallworld


@dataclass(frozen=True)
class Language:
    """Functions of prompt, answer and `ended` (keyword).

    `utility` is by what a crowd judges. `criteria` are the demands of a prompt by name, from the easiest on, each with
    whether the answer meets it. `unseen` says what neither looks at, as the object of a sentence. `subjects` are those
    that one can ask about; none where it has no list of them.
    """

    utility: Callable[..., float]
    criteria: Callable[..., Mapping[str, bool]]
    unseen: str
    subjects: Sequence[str] = ()


LANGUAGES: Mapping[str, Language] = {
    "letters@1": Language(letters.utility, letters.criteria, "anything but letters and a few words"),
    "sentences@1": Language(
        sentences.utility, sentences.criteria, "whether a sentence is true, or even makes sense; read the answers below"
    ),
    "small-world@1": Language(
        smallworld.utility,
        smallworld.criteria,
        "anything but exactly the answers of the world",
        smallworld.SUBJECTS,
    ),
}
