"""The text side of a folder of Hugging Face: its tokenizer, the ids that end and begin a text, its chat template.

Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tokenizers import Tokenizer

from tutti.corpus.tokens.fidelity import is_lossless
from tutti.inference.foreign.config import CONFIG
from tutti.inference.foreign.errors import NotImportable
from tutti.inference.foreign.objects import json_object
from tutti.records.canonical import bytes_digest

GENERATION, SETTINGS, TEMPLATE, TOKENIZER = (
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "tokenizer.json",
)
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
DEFAULT = "default"
"""The name of the template that is used where a folder has several."""


@dataclass(frozen=True)
class Texts:
    """`tokenizer` and `template` are digests of their bytes, the latter "" for none.

    `ids` is the number of ids of the tokenizer, which is `lossless` if decoding gives every text back. `ends` are the
    ids that end a text. `chat` is the source of the template, `words` are the special tokens that it can name.
    """

    tokenizer: str
    ids: int
    lossless: bool
    ends: tuple[int, ...]
    begin: int | None
    padding: int | None
    template: str
    chat: str
    words: Mapping[str, str]


def texts_of(files: Mapping[str, bytes], vocabulary: int) -> Texts:
    """Read the files of a folder by their names; `vocabulary` is that of the model. Raises NotImportable."""
    try:
        tokenizer = Tokenizer.from_buffer(files[TOKENIZER])
    except Exception as error:  # the library raises bare Exception
        raise NotImportable(TOKENIZER, "", seen=str(error), expected="a tokenizer of the library tokenizers") from error
    numbers = tokenizer.get_vocab(with_added_tokens=True)
    word = max(numbers, key=numbers.__getitem__, default="")
    if not word or numbers[word] >= vocabulary:
        expected = f"ids below {vocabulary} (vocab_size in {CONFIG})"
        raise NotImportable(TOKENIZER, word, seen=numbers.get(word, "no id"), expected=expected)
    ends, file = _ids(files, "eos_token_id", vocabulary)
    if not ends:
        raise NotImportable(file, "eos_token_id", seen=None, expected="the ids that end a text")
    (begin, _), (padding, _) = (_ids(files, key, vocabulary) for key in ("bos_token_id", "pad_token_id"))
    template = _template(files)
    return Texts(
        tokenizer=bytes_digest(files[TOKENIZER]),
        ids=len(numbers),
        lossless=is_lossless(json_object(files[TOKENIZER], TOKENIZER)),
        ends=ends,
        begin=begin[0] if begin else None,
        padding=padding[0] if padding else None,
        template=bytes_digest(template.encode()) if template else "",
        chat=template,
        words=_words(files),
    )


def _words(files: Mapping[str, bytes]) -> dict[str, str]:
    """The special tokens by the names that templates have for them, such as `bos_token`."""
    settings = json_object(files[SETTINGS], SETTINGS) if SETTINGS in files else {}
    found = {name: settings.get(name) for name in NAMED}
    spelled = {name: each.get("content") if isinstance(each, dict) else each for name, each in found.items()}
    return {name: each for name, each in spelled.items() if isinstance(each, str)}


def _ids(files: Mapping[str, bytes], key: str, vocabulary: int) -> tuple[tuple[int, ...], str]:
    """The ids of a key, and the file that has them: that of generation before that of the model."""
    for file in (GENERATION, CONFIG):
        value = json_object(files[file], file).get(key) if file in files else None
        ids = value if isinstance(value, list) else [] if value is None else [value]
        for each in ids:
            if type(each) is not int or not 0 <= each < vocabulary:
                raise NotImportable(file, key, seen=value, expected=f"ids from 0 to {vocabulary - 1}")
        if ids:
            return tuple(ids), file
    return (), CONFIG


def _template(files: Mapping[str, bytes]) -> str:
    """The chat template; "" for none. Raises NotImportable."""
    if TEMPLATE in files:
        return files[TEMPLATE].decode(errors="replace")
    found = json_object(files[SETTINGS], SETTINGS).get("chat_template") if SETTINGS in files else None
    if isinstance(found, list):
        named = [each.get("template") for each in found if isinstance(each, dict) and each.get("name") == DEFAULT]
        found = named[0] if named else None
    if not isinstance(found, str | None):
        raise NotImportable(
            SETTINGS, "chat_template", seen=found, expected=f"a text, or a list with one named {DEFAULT}"
        )
    return found or ""
