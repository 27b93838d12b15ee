"""Tokenizers that this machine has, whoever made them: how many tokens each makes of texts.

Promises: nothing is fetched from any network. Texts are counted whole, whatever length a tokenizer was saved to cut
them to, or to fill them up to.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tutti.client.plain import Plain
from tutti.client.unusable import Unusable
from tutti.report.texts import Group

FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class Reference:
    """`counted`: how many tokens texts become, each by itself, without the special ones."""

    vocabulary: int
    counted: Callable[[Sequence[str]], int]


def references(environment: Mapping[str, str], wrong: Callable[[str], object]) -> Iterator[tuple[str, Reference]]:
    """Those in the caches of Hugging Face and of tiktoken, by name; `wrong` is told of one that is left out."""
    for name, path in installed(environment).items():
        try:
            yield name, opened(path)
        except Unusable as error:
            wrong(f"{name} is left out: {error}")
    yield from encodings()


def measured(tokenizers: Mapping[str, Reference], groups: Iterable[Group]) -> list[Plain]:
    """A row for each group and tokenizer."""
    return [
        {
            "sample": group.name,
            "documents": len(group.texts),
            "bytes": (size := group.bytes),
            "tokenizer": name,
            "vocabulary": tokenizer.vocabulary,
            "tokens": (tokens := tokenizer.counted(group.texts)),
            "bytes_a_token": round(size / max(tokens, 1), 3),
        }
        for group in groups
        for name, tokenizer in tokenizers.items()
    ]


def installed(environment: Mapping[str, str]) -> dict[str, Path]:
    """The tokenizers of models in the cache of Hugging Face, by the names of the models."""
    home = environment.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    hub = Path(environment.get("HF_HUB_CACHE") or Path(home, "hub"))
    found = sorted(hub.glob(f"models--*/snapshots/*/{FILE}"))
    return {path.parts[-4].removeprefix("models--").replace("--", "/"): path for path in found}


def opened(path: Path) -> Reference:
    """A tokenizer.json. Raises Unusable for a file that is none."""
    from tokenizers import Tokenizer  # no other command waits for it

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise Unusable(f"{path} is no {FILE}: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def counted(texts: Sequence[str]) -> int:
        return sum(map(len, tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)))

    return Reference(tokenizer.get_vocab_size(), counted)


def encodings() -> Iterator[tuple[str, Reference]]:
    """The encodings of tiktoken whose files it has kept; none where it is not installed."""
    try:
        tiktoken, load = (importlib.import_module(name) for name in ("tiktoken", "tiktoken.load"))
        names = tiktoken.list_encoding_names()
    except (ImportError, ValueError):  # not here, or one of its plugins is broken
        return
    for name in names:
        try:
            with _offline(load):
                encoding = tiktoken.get_encoding(name)
        except Exception:  # noqa: S112  (whatever a plugin raises, too: its files are not here, or it cannot read them)
            continue
        yield f"tiktoken/{name}", Reference(encoding.n_vocab, _counted(encoding))


def _counted(encoding: Any) -> Callable[[Sequence[str]], int]:
    return lambda texts: sum(map(len, encoding.encode_ordinary_batch(list(texts))))


@contextlib.contextmanager
def _offline(load: Any) -> Iterator[None]:
    """tiktoken asks for what it has not kept by this function alone."""
    fetch, load.read_file = load.read_file, _refused
    try:
        yield
    finally:
        load.read_file = fetch


def _refused(place: str) -> NoReturn:
    raise FileNotFoundError(place)
