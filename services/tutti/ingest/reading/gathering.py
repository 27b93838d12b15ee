"""Gathering: the conversations of a folder, of one file, or of an earlier set, as JSON lines by their digests.

Promises: the lines depend on the conversations alone, never on their files' names or order; every record becomes a
conversation, a duplicate or a rejection with its reason. Memory is that of the lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tutti.corpus import objectfiles
from tutti.corpus.conversations.conversations import Conversation, from_lines, to_lines
from tutti.corpus.conversations.conversationset import part_of
from tutti.corpus.conversations.layouts import EXPECTED, Layout, conversation, layout_of, unread
from tutti.corpus.conversations.licences import UNKNOWN, Licences, bounded, preferred
from tutti.corpus.conversations.unfit import Reason, Unfit
from tutti.corpus.files.jsonvalues import QUOTED
from tutti.ingest.quality.dialogues import Sieve
from tutti.ingest.reading import rejections, shards
from tutti.ingest.reading.filenames import LINES, unpacked
from tutti.ingest.reading.readers import Container
from tutti.records.canonical import bytes_digest

GATHERING_VERSION = 3
MAX_LINE_BYTES = 1 << 20
"""Maximum size of a record; a longer one is rejected."""
LIMITS = objectfiles.Limits(MAX_LINE_BYTES, whole=shards.MAX_FILE_BYTES)
QUOTES = 3
"""Rejections of one reason that are quoted."""
NAMED_FILES = 100
UNREAD_FIELDS = 100
"""Fields that are listed as unread."""


@dataclass
class Tally:
    """The results for the records: files by their layout, and the number and the first rejections by reason."""

    files: list[tuple[str, Layout, int]] = field(default_factory=list)
    layouts: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    quotes: dict[str, list[str]] = field(default_factory=dict)
    duplicates: int = 0
    unread: Counter[str] = field(default_factory=Counter)
    """Records by a field that is not read and does not change their meaning."""
    unread_first: dict[str, str] = field(default_factory=dict)
    dropped: list[tuple[str, int, str]] = field(default_factory=list)
    """Files of several records of which none is a conversation: the path, how many, and the first rejection."""

    def see_unread(self, place: str, fields: Collection[str]) -> None:
        for name in sorted(fields):
            if name in self.unread or len(self.unread) < UNREAD_FIELDS:
                self.unread[name] += 1
                self.unread_first.setdefault(name, place)

    def reject(self, place: str, problem: Unfit) -> None:
        self.count(problem.reason, f"{place}: {problem.detail}")

    def count(self, reason: str, quote: str) -> None:
        self.rejected[reason] += 1
        quotes = self.quotes.setdefault(reason, [])
        if len(quotes) < QUOTES:
            quotes.append(quote)


@dataclass(frozen=True)
class Arrangement:
    """The split into parts with its seed, what conversations must pass, and the licences that they may have."""

    split: Mapping[str, float]
    seed: int = 0
    sieve: Sieve = field(default_factory=Sieve)
    licences: Licences = field(default_factory=Licences)


@dataclass(frozen=True)
class Read:
    """A conversation as it was read: its licence, and its place for a quote."""

    conversation: Conversation
    licence: str
    place: str


@dataclass(frozen=True)
class Gathered:
    """A file of JSON lines in the scratch folder, and what was counted.

    `licence_of` is the licence of each conversation by its digest, where it is known; `licences` counts them.
    """

    path: Path
    bytes_digest: str
    bytes: int
    count: int
    parts: Mapping[str, int]
    tally: Tally
    survey: shards.Survey
    licence_of: Mapping[str, str]
    licences: Mapping[str, int]


def gather(root: Path, arranged: Arrangement, scratch: Path, roots: tuple[str, ...] = ()) -> Gathered:
    """Raises InputRootError when there is no such folder or file, or none in one of the `roots`."""
    tally, surveyor = Tally(), shards.Surveyor()

    def read() -> Iterator[Read]:
        for file in shards.files(shards.Reading(root, shards.MAX_FILE_BYTES, 0, roots=roots)):
            surveyor.see(file)
            yield from _conversations(file, tally, arranged.licences)

    return _written(read(), arranged, tally, surveyor, scratch)


def taken(conversations: Sequence[Conversation], arranged: Arrangement, scratch: Path) -> Gathered:
    """Conversations that were published before, in place of files; they name no licence."""
    tally = Tally()
    if conversations:
        tally.layouts[Layout.MESSAGES] = len(conversations)
    read = (Read(each, arranged.licences.missing, each.digest) for each in conversations)
    return _written(read, arranged, tally, shards.Surveyor(), scratch)


def without(gathered: Gathered, gone: Mapping[str, str], reason: str) -> Gathered:
    """The same without some conversations, by their digests, which are rejected for a reason and quoted as given."""
    every = list(from_lines(Conversation, gathered.path.read_bytes()))
    for digest in sorted(gone):
        gathered.tally.count(reason, gone[digest])
    return _put([each for each in every if each.digest not in gone], gathered)


def _written(
    read: Iterator[Read], arranged: Arrangement, tally: Tally, surveyor: shards.Surveyor, scratch: Path
) -> Gathered:
    found: dict[str, Conversation] = {}
    licence_of: dict[str, str] = {}
    for each in read:
        if (refusal := arranged.licences.refusal(each.licence)) is not None:
            tally.reject(each.place, refusal)
            continue
        digest = each.conversation.digest
        if found.setdefault(digest, each.conversation) is not each.conversation:
            tally.duplicates += 1
        if each.licence != UNKNOWN:
            licence_of[digest] = preferred(licence_of.get(digest, UNKNOWN), each.licence)
    for digest, rule in sorted(arranged.sieve.rejected(list(found.values())).items()):
        tally.count(rule, digest)
        del found[digest]
    parted = [replace(found[digest], part=part_of(digest, arranged.split, arranged.seed)) for digest in sorted(found)]
    parts = dict.fromkeys(arranged.split, 0)
    target = scratch / "conversations.jsonl"
    return _put(parted, Gathered(target, "", 0, 0, parts, tally, surveyor.survey(), licence_of, {}))


def _put(conversations: Sequence[Conversation], into: Gathered) -> Gathered:
    data = to_lines(conversations)
    into.path.write_bytes(data)
    parts = Counter(dict.fromkeys(into.parts, 0))
    parts.update(each.part for each in conversations if each.part)
    return replace(
        into,
        bytes_digest=bytes_digest(data),
        bytes=len(data),
        count=len(conversations),
        parts=dict(parts),
        licences=_licences(conversations, into.licence_of),
    )


def _licences(conversations: Sequence[Conversation], licence_of: Mapping[str, str]) -> dict[str, int]:
    """The number of conversations by licence; empty if none is known."""
    if not licence_of:
        return {}
    return bounded(Counter(licence_of.get(each.digest, UNKNOWN) for each in conversations))


def _conversations(file: shards.File, tally: Tally, licences: Licences) -> Iterator[Read]:
    """The conversations of a file; what else is in it is counted."""
    layout: Layout | None = None
    count, refused, first = 0, 0, ""
    for place, record in _records(file, tally):
        found = layout_of(record) if layout is None else layout
        try:
            if found is None:
                raise Unfit(Reason.UNKNOWN_LAYOUT, f"{_keys(record)}; expected {EXPECTED}")
            layout = found
            made = Conversation(conversation(layout, record))
        except Unfit as problem:
            tally.reject(place, problem)
            refused, first = refused + 1, first or f"{place}: {problem}"
            continue
        tally.layouts[layout] += 1
        tally.see_unread(place, unread(layout, record))
        count += 1
        yield Read(made, licences.of(record), place)
    if refused > 1 and not count:
        tally.dropped.append((file.path, refused, first))
    if layout is not None:
        tally.files.append((file.path, layout, count))


def _records(file: shards.File, tally: Tally) -> Iterator[tuple[str, dict[str, object]]]:
    """The objects of a file, each with its place in the file."""
    if isinstance(file, rejections.Rejection):
        tally.reject(file.path, Unfit(Reason.UNREADABLE, f"{file.reason.value}: {file.detail}"))
        return
    read = _read(file) if isinstance(file, Container) else iter([(file.path, _other_file())])
    for place, found in read:
        if isinstance(found, Unfit):
            tally.reject(place, found)
        elif not isinstance(found, dict):
            tally.reject(place, Unfit(Reason.NOT_AN_OBJECT, f"{type(found).__name__}; expected an object"))
        else:
            yield place, found


def _read(file: Container) -> Iterator[tuple[str, object]]:
    """The values of a file, each with its place, and an Unfit for what cannot be read."""
    if not (file.path.lower().endswith(".parquet") or unpacked(file.path).endswith((*LINES, ".json"))):
        yield file.path, _other_file()
        return
    for each in objectfiles.values(file.file, LIMITS):
        yield f"{file.path}:{each.number}" if each.number else file.path, each.value


def _other_file() -> Unfit:
    expected = "expected JSON lines (.jsonl, .ndjson), a list in JSON (.json), these with .gz or .zst, or Parquet"
    return Unfit(Reason.OTHER_FILE, expected)


def _keys(record: Mapping[str, object]) -> str:
    keys = ", ".join(ascii(key[:QUOTED]) for key in sorted(record)[:10])
    return f"the keys {keys}" if keys else "no key"
