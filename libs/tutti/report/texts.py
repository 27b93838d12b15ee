"""Texts to compare tokenizers on: of files, of this Python, and of a dataset, language by language.

Promises: the same dataset, files and Python give the same texts. Memory is the texts that are taken, and a shard of
documents with what was told of them.
"""

from __future__ import annotations

import codecs
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tutti.client import Client
from tutti.client.unusable import Unusable
from tutti.contracts.tokenization.v1 import Dataset, DatasetFile, ListDatasetFilesRequest

if TYPE_CHECKING:
    from tutti.corpus.documents.samples import Sample

SAMPLE_BYTES = 8 << 20
"""Maximum bytes of a sample of texts, which are read in the order of their names."""
CODE = "Python code"
LANGUAGE_BYTES, LEAST_BYTES = 1 << 20, 1000
"""Maximum and minimum amount of text per language; a language with less than the minimum is left out."""
LOOKED_BYTES = 256 << 20
"""So many bytes of document shards are looked at, or one shard."""
UNDETERMINED = "und"
NEEDED = ("decisions", "duplicates", "cuts")
"""Files that are read completely before any document: what was left out."""


@dataclass(frozen=True, slots=True)
class Group:
    """Texts that are counted together: of a language, a file, a folder."""

    name: str
    texts: tuple[str, ...]

    @property
    def bytes(self) -> int:
        return sum(len(text.encode()) for text in self.texts)


@dataclass(frozen=True, slots=True)
class Spoken:
    """Texts of a dataset by language, the one with most text in it first.

    `told`: whether anything says which language a document is in; `partly`: whether shards are unread and there is not
    enough of every language.
    """

    groups: tuple[Group, ...]
    told: bool
    partly: bool

    @property
    def enough(self) -> tuple[Group, ...]:
        """The languages whose text tells something."""
        return tuple(each for each in self.groups if each.bytes >= LEAST_BYTES)

    @property
    def few(self) -> tuple[Group, ...]:
        return tuple(each for each in self.groups if each.bytes < LEAST_BYTES)


def samples(places: Sequence[Path], most: int = SAMPLE_BYTES) -> list[Group]:
    """The texts of files and folders, or code, so many bytes of each. Raises Unusable for a place without text."""
    wanted = [(str(place), place, "*") for place in places] or [(CODE, Path(sysconfig.get_paths()["stdlib"]), "*.py")]
    found = [Group(name, tuple(_texts(place, pattern, most))) for name, place, pattern in wanted]
    for each in found:
        if not each.texts:
            raise Unusable(f"{each.name} has no text in UTF-8; name files or folders that do")
    return found


def _texts(place: Path, pattern: str, left: int) -> Iterator[str]:
    for path in sorted(place.rglob(pattern)) if place.is_dir() else [place]:
        if left <= 0:
            return
        if path.is_file():
            with path.open("rb") as file:
                data = file.read(left)
            try:
                text = codecs.getincrementaldecoder("utf-8")().decode(data, final=len(data) < left)
            except UnicodeDecodeError:
                continue
            if text:
                left -= len(data)
                yield text


def spoken(
    client: Client, dataset: Dataset, *, language_bytes: int = LANGUAGE_BYTES, looked_bytes: int = LOOKED_BYTES
) -> Spoken:
    """A sample of the texts of a dataset, of both splits, as they were tokenized. Raises Unusable, Refused."""
    from tutti.records.errors import CorpusError
    from tutti.report.datasetfiles import fetched, read  # slow to import

    files = client.tokenization.ListDatasetFiles(ListDatasetFilesRequest(name=dataset.name)).files
    shards, measures = ordered(files)
    some = within(shards, looked_bytes)
    most = {each.language: each.text_bytes for each in dataset.languages if each.text_bytes >= LEAST_BYTES}
    wanted = {name: min(size, language_bytes) for name, size in most.items()} or {UNDETERMINED: language_bytes}
    with tempfile.TemporaryDirectory(prefix="tutti-texts-") as folder:
        scratch = Path(folder)
        told = (path for path, _ in fetched(client, dataset.name, measures, scratch))
        needed = [*(each for each in files if each.holds in NEEDED), *some]
        try:
            found, enough = grouped(
                by_language(read(client, dataset.name, needed, scratch), told), wanted, language_bytes
            )
        except CorpusError as error:
            raise Unusable(f"{dataset.name} cannot be read: {error}") from error
    if not found:
        raise Unusable(f"{dataset.name} has no text")
    names = sorted(found, key=lambda name: (-most.get(name, 0), name))
    return Spoken(
        tuple(Group(name, tuple(found[name])) for name in names),
        told=bool(measures),
        partly=len(some) < len(shards) and not enough,
    )


def ordered(files: Iterable[DatasetFile]) -> tuple[list[DatasetFile], list[DatasetFile]]:
    """Shards of documents, by their digests, so that the first ones are from anywhere in what was read; and what was
    measured, beside each shard the file of its documents as far as one can tell.
    """
    shards = [each for each in files if each.holds == "documents"]
    measures = [each for each in files if each.holds == "measures"]
    order = sorted(range(len(shards)), key=lambda at: shards[at].bytes_digest)
    if len(measures) == len(shards):
        measures = [measures[at] for at in order]
    return [shards[at] for at in order], measures


def within(files: Sequence[DatasetFile], most: int) -> list[DatasetFile]:
    """The first of these, so many bytes of them at most, but one in any case."""
    found, size = list[DatasetFile](), 0
    for each in files:
        size += each.bytes
        if found and size > most:
            break
        found.append(each)
    return found


def by_language(documents: Iterable[Sample], measures: Iterator[Path]) -> Iterator[tuple[str, str]]:
    """Language and text of each; files of measures are read when a document is in none of those before."""
    from tutti.corpus.rows import batches

    known: dict[str, str] = {}
    for each in documents:
        while each.document not in known and (path := next(measures, None)):
            for batch in batches(path, ["doc_id", "language"]):
                known.update(zip(batch["doc_id"].to_pylist(), batch["language"].to_pylist(), strict=True))
        yield known.get(each.document, UNDETERMINED), each.text


def grouped(told: Iterable[tuple[str, str]], wanted: Mapping[str, int], most: int) -> tuple[dict[str, list[str]], bool]:
    """Return texts grouped by language, and whether each language has its `wanted` bytes; stop when all have.

    A language has at most `most` bytes; the text that would exceed them is cut.
    """
    found: dict[str, list[str]] = {}
    sizes, full, lacking = Counter[str](), set[str](), set(wanted)
    for language, text in told:
        data = text.encode()
        if language not in full:
            kept = data[: most - sizes[language]].decode(errors="ignore")
            if kept:
                found.setdefault(language, []).append(kept)
            sizes[language] += len(kept.encode())
            if sizes[language] >= most or len(kept) < len(text):
                full.add(language)
            if language in full or sizes[language] >= wanted.get(language, most):
                lacking.discard(language)
        if not lacking:
            return found, True
    return found, False
