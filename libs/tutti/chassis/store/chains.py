"""The chain of an audit trail: its batches in the blob store, the head and the records in the database, compared.

Promises: pure. A batch fits if its digest is the one that the next batch, or the head, names. Where it does not fit,
the records of the database are tried in its place, so that a difference names the copy that was changed. A difference
that was acknowledged is the same one as long as its digest is.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from blake3 import blake3

from tutti.chassis.store.seals import FIRST, BadBatch, Batch, Row, decoded, key_of, row_digest

DATABASE, BLOB, BOTH, NEITHER = "database", "blob", "both", "neither"
"""The copies that fit."""
HEAD = "head of the chain"
_SEQ = re.compile(rb'"seq":(\d{1,18})')
_PREVIOUS = re.compile(rb'"previous":"(blake3:[0-9a-f]{64})"')
_MOST_TRIED = 500


@dataclass(frozen=True)
class Head:
    """The newest batch, by its number and digest."""

    number: int = FIRST - 1
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}" if self.number >= FIRST else ""


def head_of(text: str) -> Head:
    number, _, digest = text.partition(":")
    return Head(int(number), digest)


@dataclass(frozen=True)
class Difference:
    """`place` is a batch, a record of a batch, or the head; `digest` identifies what is there. `fits` is the copy that
    the chain or the other copies confirm.
    """

    place: str
    digest: str
    fits: str
    message: str


@dataclass(frozen=True)
class Examined:
    """`batches` are those that fit, or could be made again from the database, in their order."""

    batches: tuple[Batch, ...]
    differences: tuple[Difference, ...]
    newest: Head
    """what the next batch continues, unless a difference is acknowledged first"""


def place_of(number: int) -> str:
    return f"batch {number}"


def examine(
    service: str,
    chain: Iterable[tuple[int, bytes]],
    rows: Sequence[Row],
    head: Head | None,
    since: int,
    *,
    first: int = FIRST,
) -> Examined:
    """Compare a chain, or its end from the batch `first` on, with the records of the database and with its head, None
    for unknown.

    `chain`: number and bytes of each batch. Records before `since` were pruned.
    """
    return _Examination(service, dict(chain), rows, head, since).done(first)


class _Examination:
    def __init__(
        self, service: str, stored: Mapping[int, bytes], rows: Sequence[Row], head: Head | None, since: int
    ) -> None:
        self._service, self._stored, self._head, self._since = service, stored, head, since
        self._rows = {int(row["seq"]): row for row in rows}
        self._there = {row_digest(row): row for row in rows}
        self._parsed: dict[int, Batch] = {}
        self._bad: dict[int, str] = {}
        for number, data in stored.items():
            try:
                batch = decoded(data)
                if (batch.service, batch.number) != (service, number):
                    raise BadBatch(f"it holds batch {batch.number} of {batch.service}")
                self._parsed[number] = batch
            except BadBatch as error:
                self._bad[number] = str(error)
        self._fitting: dict[int, Batch] = {}
        self._found: list[Difference] = []

    def done(self, first: int) -> Examined:
        newest = max(self._stored, default=FIRST - 1)
        top = max(newest, self._head.number if self._head else 0)
        expected = ""  # the digest that the batch must have; unknown of the newest without a head, and after a gap
        for number in range(top, first - 1, -1):
            expected = self._at(number, expected)
        self._compare_records()
        self._found.reverse()
        return Examined(
            tuple(self._fitting[number] for number in sorted(self._fitting)), tuple(self._found), self._newest(newest)
        )

    def _newest(self, number: int) -> Head:
        """The head that the chain has, whether or not it is that of the database."""
        if self._head and self._head.number >= number and not any(each.place == HEAD for each in self._found):
            return self._head
        if number < FIRST:
            return Head()
        batch = self._parsed.get(number)
        return Head(number, batch.digest if batch else self._seen(number))

    def _at(self, number: int, expected: str) -> str:
        """Examine a batch, and return the digest that the one before must have."""
        batch = self._parsed.get(number)
        digest = batch.digest if batch else ""
        if self._head and number == self._head.number and expected != self._head.digest:
            if batch and digest != self._head.digest and self._agrees(batch, expected):
                self._differ(HEAD, str(self._head), BOTH, f"the head {self._head} in the database was changed: "
                             f"{key_of(self._service, number)} and the records agree with each other")  # fmt: skip
                expected = digest
            elif expected:
                above = number + 1
                self._differ(place_of(above), self._seen(above), NEITHER,
                             f"{key_of(self._service, above)} does not continue the head {self._head}")  # fmt: skip
                expected = self._head.digest
            else:
                expected = self._head.digest
        if batch and (not expected or digest == expected):
            self._fitting[number] = batch
            return batch.previous
        key = key_of(self._service, number)
        what = f"{key} {'is missing' if number not in self._stored else 'was changed'}"
        if number in self._bad:
            what += f" ({self._bad[number]})"
        if expected and (again := self._made_again(number, expected)):
            self._fitting[number] = again
            self._differ(place_of(number), self._seen(number), DATABASE,
                         f"{what}; the records in the database fit the chain")  # fmt: skip
            return again.previous
        why = "its records cannot be made again from the database either"
        self._differ(place_of(number), self._seen(number), NEITHER, f"{what}; {why}")
        return ""

    def _seen(self, number: int) -> str:
        data = self._stored.get(number)
        return f"blake3:{blake3(data).hexdigest()}" if data is not None else ""

    def _differ(self, place: str, digest: str, fits: str, message: str) -> None:
        self._found.append(Difference(place, digest, fits, message))

    def _agrees(self, batch: Batch, expected: str) -> bool:
        """True if the batch after, the batch before and the records confirm a batch that does not fit the head."""
        before = self._parsed.get(batch.number - 1)
        continues = batch.previous == (before.digest if before else "")
        there = all(int(row["at"]) < self._since or row_digest(row) in self._there for row in batch.rows)
        return continues and there and expected in ("", batch.digest)

    def _made_again(self, number: int, expected: str) -> Batch | None:
        """The batch with this digest, of records in the database; None if they are not the same any more."""
        data = self._stored.get(number, b"")
        before = self._parsed.get(number - 1)
        previous = {before.digest if before else "", *(match.decode() for match in _PREVIOUS.findall(data))}
        for rows in self._candidates(data):
            for each in previous:
                batch = Batch(self._service, number, each, tuple(rows))
                if batch.digest == expected:
                    return batch
        return None

    def _candidates(self, data: bytes) -> Iterator[list[Row]]:
        """Records that a batch may have had: those that its bytes name, else the first that no batch has."""
        named = [int(match) for match in _SEQ.findall(data)]
        if named and all(number in self._rows for number in named):
            yield [self._rows[number] for number in named]
        sealed = {int(row["seq"]) for batch in self._parsed.values() for row in batch.rows}
        loose = [row for number, row in sorted(self._rows.items()) if number not in sealed or number in named]
        for count in range(1, min(len(loose), _MOST_TRIED) + 1):
            yield loose[:count]

    def _compare_records(self) -> None:
        """Find sealed records that the database lacks or has otherwise, though their batch fits."""
        for number, batch in sorted(self._fitting.items(), reverse=True):
            for row in reversed(batch.rows):
                digest = row_digest(row)
                if int(row["at"]) < self._since or digest in self._there:
                    continue
                now = self._rows.get(int(row["seq"]))
                what = "was removed from the database" if now is None else "was changed in the database"
                who = f"{row['user'] or 'nobody'}: {row['action']}"
                self._differ(record_place(number, row), digest, BLOB,
                             f"record {row['seq']} ({who}) {what}; {key_of(self._service, number)} has it")  # fmt: skip


def record_place(number: int, row: Row) -> str:
    return f"record {row['seq']} of batch {number}"


def unsettled(found: Examined, acknowledged: Collection[tuple[str, str]]) -> tuple[Difference, ...]:
    """The differences that were not acknowledged, each as a pair of place and digest."""
    return tuple(each for each in found.differences if (each.place, each.digest) not in acknowledged)
