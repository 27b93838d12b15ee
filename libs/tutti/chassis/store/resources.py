"""Resources: one kind of named message in one table.

Promises: a read verifies the row against the digest that it was written with; a write needs the row locked in the same
unit, grows the revision by one and emits the snapshot; a create can be repeated.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, TypeVar

from google.protobuf.message import DecodeError, Message
from sqlalchemy import (
    BigInteger,
    Column,
    LargeBinary,
    MetaData,
    Select,
    String,
    or_,
    select,
)

from tutti.chassis.errors import AlreadyExists, CorruptRow, NotFound, StaleWrite
from tutti.chassis.events.catalog import event_type, is_event
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal
from tutti.chassis.names import check_kind, check_name
from tutti.chassis.store import listing, origins
from tutti.chassis.store.bodies import content_digest, seal
from tutti.chassis.store.columns import Columns, Index
from tutti.chassis.store.resourcequeries import (
    by_name,
    by_number,
    locked,
    names_of,
    paged,
    request_of,
    selected,
    sum_of_revisions,
    written,
)
from tutti.chassis.store.statements import UNREADABLE
from tutti.chassis.store.tables import NAME, declare
from tutti.chassis.store.unit import HeldResource, Unit
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.options.v1 import resource as option

__all__ = ["Resource", "check_name"]

M = TypeVar("M", bound=Message)
Shown = Callable[[Unit, M, Principal], bool]
Viewed = Callable[[Unit, M, Principal], M]
_MANY = (list, tuple, set, frozenset)
Listener = Callable[[frozenset[tuple[str, int]]], None]
PAGE_BYTES = 8 << 20
"""A page of a list ends before its resources have more bytes than this; one resource is always returned."""


@dataclass(frozen=True)
class Listed(Generic[M]):
    """A page of a list: the token of the next one is empty after the last; `damaged` names rows that are left out."""

    found: list[M]
    token: str
    damaged: list[str]


@dataclass(frozen=True)
class _Unreadable:
    name: str
    why: str


class Resource(Generic[M]):
    """Messages of type `message` (with fields `name` and `revision`) under names `kind/...`.

    `columns` are what can be selected and filtered by; each is computed from the message, and its type is that of its
    value for an empty message. `changed` holds who is told of new revisions after the commit. Names of `numbered`
    resources end in numbers, such as lines and steps: they are listed in the order of these. A resource that has no
    bound gives `event`: what the event of a change says, from the resource before it (None for a new one) and after it.
    `shown` returns whether a resource exists for a principal; a kind that is declared to belong to tenants must have
    it. `viewed` returns a resource, or an event of it, without what is not for a principal. Raises ValueError.
    """

    def __init__(
        self,
        host_metadata: MetaData,
        kind: str,
        message: type[M],
        columns: Mapping[str, Index] | None = None,
        *,
        numbered: bool = False,
        event: Callable[[M | None, M], M] | None = None,
        shown: Shown[M] | None = None,
        viewed: Viewed[M] | None = None,
    ) -> None:
        self._part, self._viewed = event, viewed
        self.kind, self.message, self._sorted = check_kind(kind), message, numbered
        if shown is None and message.DESCRIPTOR.GetOptions().Extensions[option].tenants:
            raise ValueError(f"{kind} belong to tenants: pass `shown`, which hides them from the other tenants")
        self._shown = shown
        for field in ("name", "revision"):
            if field not in message.DESCRIPTOR.fields_by_name:
                raise ValueError(f"{message.DESCRIPTOR.full_name} cannot be a resource: it has no field {field!r}")
        self._event = event_type(message) if is_event(message) else None
        self._columns = Columns(kind, message, columns or {})
        self.changed: list[Listener] = []
        self.table = declare(
            kind.replace("-", "_"),
            host_metadata,
            Column("name", NAME, primary_key=True),
            Column("revision", BigInteger, nullable=False),
            Column("body", LargeBinary, nullable=False),
            Column("digest", String, nullable=False),
            Column("request_id", NAME, unique=True),
            Column("request_digest", String, nullable=False),
            *self._columns.declared(),
        )

    def create(self, unit: Unit, message: M, request: Message | None = None) -> M:
        """Revision 1, or the existing one when the same name or request_id was used with an equal body.

        Raises AlreadyExists with both digests when the body was another, InvalidField for a name that is none.
        """
        name = check_name(self.kind, _name(message))
        request_id = getattr(request, "request_id", "") or None
        digest = content_digest(message if request is None else request)
        if (found := self._existing(unit, name, request_id, digest)) is not None:
            return found
        made = self._numbered(message, 1)
        self._insert(unit, made, request_id, digest)
        unit.held[name] = HeldResource(0, 1, _body(made))
        origins.keep(unit, name)
        self._tell(unit, None, made)
        return made

    def repeated(self, unit: Unit, name: str, request: Any) -> M | None:
        """The resource that `create` would find for a request that was answered before; None for a new one.

        Raises AlreadyExists as `create` does.
        """
        return self._existing(unit, name, request.request_id or None, content_digest(request))

    def renew(self, unit: Unit, message: M, request: Any) -> M:
        """The next revision of what this unit locked, as if `request` had created it; the older request is forgotten.

        A request that was answered before gets what it made. Raises AlreadyExists when its body was another.
        """
        name, request_id, digest = _name(message), request.request_id or None, content_digest(request)
        if request_id is not None and self.is_requested(unit, request_id):
            found = self._existing(unit, name, request_id, digest)
            assert found is not None
            return found
        held = unit.held[name]
        made = self._numbered(message, held.revision + 1)
        self._update(unit, made, held.revision, (request_id, digest))
        before, held.revision, held.body = held.body, held.revision + 1, _body(made)
        self._tell(unit, before, made)
        return made

    def lock(self, unit: Unit, name: str) -> M:
        """The resource, locked until the unit ends. Raises NotFound."""
        row = unit.tx.execute(locked(self.table), {"wanted": name}).first()
        if row is None:
            raise NotFound(name)
        message = self._read(row)
        if name not in unit.held:
            unit.held[name] = HeldResource(row.revision, row.revision, bytes(row.body))
        return message

    def find(self, unit: Unit, name: str) -> M | None:
        row = unit.tx.execute(by_name(self.table), {"wanted": name}).first()
        return None if row is None else self._read(row)

    def get(self, unit: Unit, name: str) -> M:
        """Raises NotFound; takes no lock."""
        found = self.find(unit, name)
        if found is None:
            raise NotFound(name)
        return found

    def get_for(self, unit: Unit, name: str, principal: Principal) -> M:
        """Return it where it exists for a principal; takes no lock. Raises NotFound."""
        found = self.find(unit, name)
        if found is None or not self.shows(unit, found, principal):
            raise NotFound(name)
        return self.view(unit, found, principal)

    def view(self, unit: Unit, message: M, principal: Principal) -> M:
        """Return a resource, or an event of it, as a principal sees it."""
        return message if self._viewed is None else self._viewed(unit, message, principal)

    def is_whole_for(self, unit: Unit, name: str, principal: Principal) -> bool:
        """Return whether a principal sees a resource, and nothing is left out of it."""
        found = self.find(unit, name)
        return self.exists_for(unit, name, principal) and (found is None or self.view(unit, found, principal) == found)

    def exists_for(self, unit: Unit, name: str, principal: Principal) -> bool:
        """Return whether a principal may know of a name; always where the kind belongs to no tenant."""
        if self._shown is None:
            return True
        found = self.find(unit, name)
        return found is not None and self._shown(unit, found, principal)

    def shows(self, unit: Unit, message: M, principal: Principal) -> bool:
        """Return whether a resource exists for a principal."""
        return self._shown is None or self._shown(unit, message, principal)

    def put(self, unit: Unit, message: M) -> M:
        """The message under its next revision; the same one when its body did not change.

        Raises StaleWrite unless the unit locked or created it and the message is not older than that.
        """
        name = _name(message)
        held = unit.held.get(name)
        if held is None:
            raise StaleWrite(f"{name} was put without being locked or created in this unit: call lock() first")
        if not held.locked <= _revision(message) <= held.revision:
            raise StaleWrite(
                f"{name} was put at revision {_revision(message)}, this unit holds {held.revision}: change what "
                f"lock() returned"
            )
        same = self._numbered(message, held.revision)
        if _body(same) == held.body:
            return same
        made = self._numbered(message, held.revision + 1)
        self._update(unit, made, held.revision)
        before, held.revision, held.body = held.body, held.revision + 1, _body(made)
        self._tell(unit, before, made)
        return made

    @property
    def filters(self) -> Mapping[str, type]:
        """The fields that a list may be filtered by, with the type of their values (a tuple: words)."""
        return self._columns.types

    def select(self, unit: Unit, **columns: Any) -> list[M]:
        """Those whose columns have these values (a list: one of them), in name order."""
        return self._all(unit, *self._wanted(columns))

    def damaged(self, unit: Unit) -> list[str]:
        """List the damaged rows of this kind, in words; reads every row."""
        return self.readable(unit).damaged

    def readable(self, unit: Unit, principal: Principal | None = None, **columns: Any) -> "Listed[M]":
        """Return what `select` does, without damaged rows, which are named; for a principal, what exists for it."""
        found, damaged = list[M](), list[str]()
        for row in self._rows(unit, *self._wanted(columns)):
            try:
                found.append(self._read(row))
            except CorruptRow as problem:
                damaged.append(problem.message)
        if principal is None:
            return Listed(found, "", damaged)
        shown = [self.view(unit, each, principal) for each in found if self.shows(unit, each, principal)]
        return Listed(shown, "", damaged if self._names_damage(principal) else [])

    def _wanted(self, columns: Mapping[str, Any]) -> tuple[Select[Any], dict[str, Any]]:
        for name in columns:
            if name not in self._columns.types:
                raise ValueError(f"{self.kind} has no column {name!r}; known: {sorted(self._columns.types)}")
        wanted = {name: list(value) if isinstance(value, _MANY) else value for name, value in columns.items()}
        among = tuple((name, isinstance(value, list)) for name, value in wanted.items())
        return selected(self.table, among), wanted

    def _names_damage(self, principal: Principal) -> bool:
        """The tenant of a damaged resource is unknown: for kinds of tenants, only operators get the names."""
        return self._shown is None or principal.may(frozenset({Role.OPERATOR}))

    def page(self, unit: Unit, request: ListRequest, principal: Principal) -> "Listed[M]":
        """A page in name order, or by the numbers in names; it has only what exists for the principal.

        Damaged rows are left out for people, and named. Services and agents get no list without them: it would look
        complete. Raises InvalidField, CorruptRow.
        """
        page = listing.parse(request, self.kind, self._columns.types, self.message.DESCRIPTOR.fields_by_name)
        strict = principal.is_machine or principal.may(frozenset({Role.SERVICE}))
        named = self._names_damage(principal)
        found, damaged, after, more = list[M](), list[tuple[str, str]](), page.after, True
        while more and len(found) <= page.size:
            rows = self._after(unit, page, after)
            for row in rows:
                try:
                    message = self._read(row)
                except CorruptRow as problem:
                    if strict:
                        raise
                    damaged += [(row.name, problem.message)] if named else []
                    continue
                found += [self.view(unit, message, principal)] if self.shows(unit, message, principal) else []
            after, more = rows[-1].name if rows else "", len(rows) > page.size
        fitting = min(page.size, _fitting(found))
        if fitting == len(found):
            return Listed(found, "", [message for _, message in damaged])
        last = _name(found[fitting - 1])
        order: Callable[[str], Any] = by_number if self._sorted else str
        here = [message for name, message in damaged if order(name) <= order(last)]  # those behind it come again
        return Listed(found[:fitting], listing.token(self.kind, request, last), here)

    def _after(self, unit: Unit, page: listing.Page, after: str) -> list[Any]:
        """Rows, one more than a page has, after a name, in the order of the list."""
        if not self._sorted:
            asked = {**page.values, "page_after": after, "page_size": page.size + 1}
            return self._rows(unit, paged(self.table, tuple(page.equal), page.fields), asked)
        listed = unit.tx.execute(names_of(self.table, tuple(page.equal), page.fields), page.values).scalars()
        names = sorted(listed, key=by_number)
        first = bisect_right(names, by_number(after), key=by_number) if after else 0
        wanted = names[first : first + page.size + 1]
        rows = self._rows(unit, select(self.table).where(self.table.c.name.in_(wanted)), {})
        return sorted(rows, key=lambda each: by_number(str(each.name)))

    def _rows(self, unit: Unit, query: Select[Any], values: Mapping[str, Any]) -> list[Any]:
        """Rows; instead of one that the driver cannot decode, an _Unreadable."""
        try:
            return list(unit.tx.execute(query, values).all())
        except UNREADABLE:
            names = unit.tx.execute(query.with_only_columns(self.table.c.name), values).scalars().all()
        rows: list[Any] = []
        for name in names:
            try:
                rows.append(unit.tx.execute(by_name(self.table), {"wanted": name}).one())
            except UNREADABLE as error:
                rows.append(_Unreadable(str(name), str(error).splitlines()[0]))
        return rows

    def changes(self, unit: Unit) -> int:
        """Return the number of creations and changes of resources of this kind: the sum of their revisions."""
        return int(unit.tx.execute(sum_of_revisions(self.table)).scalar_one())

    @property
    def events_are_whole(self) -> bool:
        """True if the event of a change is the whole resource."""
        return self._part is None

    def notify(self, changes: frozenset[tuple[str, int]]) -> None:
        for listener in self.changed:
            listener(changes)

    def _existing(self, unit: Unit, name: str, request_id: str | None, digest: str) -> M | None:
        table = self.table
        named = table.c.name == name
        asked = named if request_id is None else or_(named, table.c.request_id == request_id)
        rows = unit.tx.execute(select(table).where(asked).order_by(table.c.name)).all()
        for row in rows:
            if row.name != name or row.request_digest != digest:
                raise AlreadyExists(row.name, ours=row.request_digest, theirs=digest)
        return self._read(rows[0]) if rows else None

    def is_requested(self, unit: Unit, request_id: str) -> bool:
        """Return whether the newest request of a resource of this kind had this id."""
        asked = select(self.table.c.name).where(self.table.c.request_id == request_id)
        return unit.tx.execute(asked).first() is not None

    def _insert(self, unit: Unit, made: M, request_id: str | None, digest: str) -> None:
        row = {
            **self._row(made, request_id, digest),
            "name": _name(made),
            "request_id": request_id,
            "request_digest": digest,
        }
        unit.insert_new(self.table, [row])

    def _update(self, unit: Unit, made: M, revision: int, by: tuple[str | None, str] | None = None) -> None:
        """Write the next revision; `by` says which request made it, where that is another than before."""
        table, name = self.table, _name(made)
        row = unit.tx.execute(request_of(table), {"wanted": name}).one()
        request_id, digest = by or (row.request_id, row.request_digest)
        values = {"wanted": name, "seen": revision, **self._row(made, request_id, digest)}
        if by is not None:
            values |= {"request_id": request_id, "request_digest": digest}
        changed = unit.tx.execute(written(table), values)
        if changed.rowcount != 1:
            raise StaleWrite(
                f"{name} is no longer at revision {revision}: a savepoint of this unit was undone around it"
            )

    def _row(self, made: M, request_id: str | None, digest: str) -> dict[str, Any]:
        revision, body = _revision(made), _body(made)
        return {
            "revision": revision,
            "body": body,
            "digest": _seal(_name(made), revision, body, request_id, digest),
            **self._columns.row(made),
        }

    def _read(self, row: Any) -> M:
        if isinstance(row, _Unreadable):
            raise self._corrupt(row.name, row.why)
        body = bytes(row.body)
        if _seal(row.name, row.revision, body, row.request_id, row.request_digest) != row.digest:
            raise self._corrupt(row.name, "its values do not have the digest that they were written with")
        try:
            message = self.message.FromString(body)
        except DecodeError as error:
            raise self._corrupt(row.name, f"its body is no {self.message.DESCRIPTOR.full_name}: {error}") from None
        for name, expected in self._columns.row(message).items():
            if expected != getattr(row, name):
                raise self._corrupt(
                    row.name, f"its column {name} is {getattr(row, name)!r}, its body says {expected!r}"
                )
        return message

    def _corrupt(self, name: str, what: str) -> CorruptRow:
        return CorruptRow(
            f"the row {name!r} of the table {self.table.name} is damaged: {what}; restore the database from a backup, "
            f"or delete the row and create the resource again",
            metadata={"table": self.table.name, "name": name},
        )

    def _all(self, unit: Unit, query: Select[Any], values: Mapping[str, Any]) -> list[M]:
        return [self._read(row) for row in unit.tx.execute(query, values).all()]

    def _numbered(self, message: M, revision: int) -> M:
        made = self.message()
        made.CopyFrom(message)
        made.revision = revision  # type: ignore[attr-defined]
        return made

    def _tell(self, unit: Unit, before: bytes | None, made: M) -> None:
        name, revision = _name(made), _revision(made)
        unit.changed(name, revision, self)
        if self._event is not None:
            unit.state(name, revision, made if self._part is None else self._part(self._parsed(before), made))

    def _parsed(self, body: bytes | None) -> M | None:
        return None if body is None else self.message.FromString(body)


def _fitting(found: Sequence[Message]) -> int:
    """The number of these that fit on a page: at least one, if there is one."""
    sizes = accumulate(message.ByteSize() for message in found)
    return sum(1 for number, size in enumerate(sizes) if size <= PAGE_BYTES or number == 0)


def _name(message: Message) -> str:
    return str(message.name)  # type: ignore[attr-defined]


def _revision(message: Message) -> int:
    return int(message.revision)  # type: ignore[attr-defined]


def _body(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def _seal(name: str, revision: int, body: bytes, request_id: str | None, request_digest: str) -> str:
    return seal(name, str(revision), body, request_id or "", request_digest)
