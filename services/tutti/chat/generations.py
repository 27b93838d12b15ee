"""The rows of answers in progress: who asked what, and the token ids so far.

Promises: these rows are private: no event and no resource has them; an entry that is written twice changes nothing;
they are deleted after KEPT, ended or not.
"""

import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, Table, Text, delete, select, update

from tutti.chassis.store.tables import NAME, declare, micros
from tutti.chassis.store.unit import Unit
from tutti.chat.journal import Begun, Said
from tutti.chat.requests import ChatRequest, as_body, read_body
from tutti.chat.saying import Score

KEPT = timedelta(days=30)
ID = "I"
"""The type code of token ids in the rows: 4 bytes each, little-endian on the processors that torch supports."""


@dataclass(frozen=True)
class Generation:
    """`ids` are the token ids that were journaled, `scores` their log-probabilities, where they were asked for."""

    request: ChatRequest
    ids: list[int]
    scores: list[Score] = field(default_factory=list)


class Generations:
    def __init__(self, metadata: MetaData) -> None:
        self._generations = declare(
            "generations",
            metadata,
            Column("answer", NAME, primary_key=True),
            Column("user", NAME, nullable=False),
            Column("tenant", NAME, nullable=False),
            Column("deployment", NAME, nullable=False),
            Column("checkpoint", NAME, nullable=False),
            Column("request", Text, nullable=False),
            Column("seed", BigInteger, nullable=False),
            Column("begun_at", BigInteger, nullable=False, index=True),
            Column("ended_at", BigInteger),
        )
        self._said = declare(
            "said_tokens",
            metadata,
            Column("answer", NAME, primary_key=True),
            Column("at", BigInteger, primary_key=True),
            Column("ids", LargeBinary, nullable=False),
            Column("scores", LargeBinary),
        )

    @property
    def tables(self) -> list[Table]:
        return [self._generations, self._said]

    def begin(self, unit: Unit, every: Sequence[Begun]) -> None:
        known = self._known(unit, self._generations, [each.answer for each in every])
        rows = [
            {
                "answer": each.answer,
                "user": each.user,
                "tenant": each.tenant,
                "deployment": each.deployment,
                "checkpoint": each.checkpoint,
                "request": json.dumps(as_body(each.request), ensure_ascii=False),
                "seed": each.seed,
                "begun_at": micros(unit.now),
                "ended_at": None,
            }
            for each in every
            if (each.answer,) not in known
        ]
        unit.tx.insert(self._generations, rows)

    def add(self, unit: Unit, every: Sequence[Said]) -> None:
        """Add tokens; those of an answer that are added at once become one row. An answer without a row has none."""
        found = defaultdict[str, list[Said]](list)
        for each in every:
            found[each.answer].append(each)
        begun = self._known(unit, self._generations, list(found))
        known = self._known(unit, self._said, list(found), "at")
        rows = [
            {
                "answer": answer,
                "at": said[0].at,
                "ids": array(ID, [each.token for each in said]).tobytes(),
                "scores": _packed(said),
            }
            for answer, said in found.items()
            if (answer,) in begun and (answer, said[0].at) not in known
        ]
        unit.tx.insert(self._said, rows)

    def end(self, unit: Unit, answers: Iterable[str]) -> None:
        table = self._generations
        unit.tx.execute(
            update(table).where(table.c.answer.in_(list(answers))).values(ended_at=micros(unit.now))
        ).close()

    def find(self, unit: Unit, answer: str) -> Generation | None:
        """The rows of an answer; None once they were deleted."""
        table, said = self._generations, self._said
        row = unit.tx.execute(select(table.c.request).where(table.c.answer == answer)).first()
        if row is None:
            return None
        ids, scores = array(ID), list[Score]()
        parts = select(said.c.ids, said.c.scores).where(said.c.answer == answer).order_by(said.c.at)
        for part in unit.tx.execute(parts):
            ids.frombytes(bytes(part.ids))
            scores += _unpacked(part.scores)
        return Generation(read_body(json.loads(row.request)), ids.tolist(), scores)

    def erase(self, unit: Unit, answers: Sequence[str]) -> None:
        """Delete the rows of answers."""
        for table in self.tables:
            unit.tx.execute(delete(table).where(table.c.answer.in_(answers))).close()

    def erase_all(self, unit: Unit, user: str) -> None:
        """Delete the rows of all answers of a user."""
        table, said = self._generations, self._said
        own = select(table.c.answer).where(table.c.user == user)
        unit.tx.execute(delete(said).where(said.c.answer.in_(own))).close()
        unit.tx.execute(delete(table).where(table.c.user == user)).close()

    def prune(self, unit: Unit, before: datetime) -> None:
        """Delete the rows of answers that began before a time."""
        table, said = self._generations, self._said
        old = select(table.c.answer).where(table.c.begun_at < micros(before))
        unit.tx.execute(delete(said).where(said.c.answer.in_(old))).close()
        unit.tx.execute(delete(table).where(table.c.begun_at < micros(before))).close()

    def _known(self, unit: Unit, table: Table, answers: Sequence[str], *more: str) -> set[tuple[object, ...]]:
        """The keys of rows of these answers that are there already."""
        columns = [table.c[name] for name in ("answer", *more)]
        return {tuple(row) for row in unit.tx.execute(select(*columns).where(table.c.answer.in_(answers)))}


def _packed(every: Sequence[Said]) -> bytes | None:
    """The log-probabilities of tokens as JSON, which keeps every bit; None without any."""
    scores = [each.score for each in every if each.score is not None]
    return json.dumps(scores).encode() if scores else None


def _unpacked(packed: bytes | None) -> list[Score]:
    if packed is None:
        return []
    return [(logprob, tuple((token, other) for token, other in others)) for logprob, others in json.loads(packed)]
