"""Terms: the leadership under which a unit writes.

Promises: the first write of a unit that runs under a term locks the lease of the leader as its holder, in the same
transaction; a leader whose lease went to another writes nothing, however long it slept, and whatever its clock says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Select, SelectBase, Table, bindparam, literal, select

from tutti.chassis.errors import FencedOff
from tutti.chassis.store.statements import prepared

if TYPE_CHECKING:
    from sqlalchemy import Executable
    from sqlalchemy.engine import CursorResult

    from tutti.backbone import Transaction
    from tutti.chassis.store.leases import Lease

T = TypeVar("T")


class Deposed(FencedOff):
    """The leadership went to another holder; nothing of this transaction was written."""


@dataclass(frozen=True)
class Term:
    """`of` identifies the units that the term fences. `lost` is called when a write was refused."""

    lease: Lease
    of: object
    lost: Callable[[Lease], None]

    @property
    def number(self) -> int:
        return self.lease.epoch


_term: ContextVar[Term | None] = ContextVar("tutti_term", default=None)


@contextlib.contextmanager
def under(term: Term) -> Iterator[None]:
    """Units of `term.of` that are run inside are fenced by the term."""
    token = _term.set(term)
    try:
        yield
    finally:
        _term.reset(token)


def term_of(units: object) -> Term | None:
    """The term that units run under here; None for what any replica may do."""
    term = _term.get()
    return term if term is not None and term.of is units else None


class FencedTransaction:
    """A transaction whose first write is preceded by the fence. Reading locks nothing."""

    def __init__(self, inner: Transaction, lease: Lease, leases: Table) -> None:
        self._inner, self._lease, self._leases = inner, lease, leases
        self._fenced = False

    def execute(
        self, statement: Executable, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> CursorResult[Any]:
        if not self._fenced and not isinstance(statement, SelectBase):
            self._fence()
        return self._inner.execute(statement, parameters)

    def insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows and not self._fenced:
            self._fence()
        self._inner.insert(table, rows)

    def savepoint(self, fn: Callable[[], T]) -> T:
        fenced = self._fenced
        try:
            return self._inner.savepoint(fn)
        except BaseException:
            self._fenced = fenced  # a lock that was taken inside is gone
            raise

    def on_commit(self, hook: Callable[[], None]) -> None:
        self._inner.on_commit(hook)

    def now(self) -> datetime:
        return self._inner.now()

    @property
    def skip_locked(self) -> bool:
        return self._inner.skip_locked

    def _fence(self) -> None:
        lease = self._lease
        held = {"wanted": lease.name, "by": lease.holder, "under": lease.epoch}
        if self._inner.execute(_held(self._leases), held).first() is None:
            raise Deposed(f"{lease.holder} lost leadership: the term after its term {lease.epoch} has begun")
        self._fenced = True


@prepared
def _held(leases: Table) -> Select[Any]:
    mine = (leases.c.holder == bindparam("by"), leases.c.epoch == bindparam("under"))
    return select(literal(1)).where(leases.c.name == bindparam("wanted"), *mine).with_for_update(read=True)
