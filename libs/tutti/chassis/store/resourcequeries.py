"""Statements on the table of a kind of resource, prepared once."""

from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Select,
    Table,
    Update,
    bindparam,
    func,
    select,
    update,
)

from tutti.chassis.store.statements import prepared


@prepared
def by_name(table: Table) -> Select[Any]:
    return select(table).where(table.c.name == bindparam("wanted"))


@prepared
def locked(table: Table) -> Select[Any]:
    return by_name(table).with_for_update()


@prepared
def selected(table: Table, among: tuple[tuple[str, bool], ...]) -> Select[Any]:
    """Rows by columns: equal to a value, or to one of many."""
    query = select(table).order_by(table.c.name)
    for name, many in among:
        value: BindParameter[Any] = bindparam(name, expanding=many)
        query = query.where(table.c[name].in_(value) if many else table.c[name] == value)
    return query


@prepared
def paged(table: Table, equal: tuple[str, ...], having: tuple[str, ...]) -> Select[Any]:
    """Rows of a page by columns that are equal to a value, and columns of words that have one: see `Page.values`."""
    query = select(table).where(table.c.name > bindparam("page_after"), *_holds(table, equal, having))
    return query.order_by(table.c.name).limit(bindparam("page_size"))


@prepared
def names_of(table: Table, equal: tuple[str, ...], having: tuple[str, ...]) -> Select[Any]:
    return select(table.c.name).where(*_holds(table, equal, having))


def _holds(table: Table, equal: tuple[str, ...], having: tuple[str, ...]) -> list[ColumnElement[bool]]:
    same = [table.c[name] == bindparam(name) for name in equal]
    return same + [table.c[name].like(bindparam(f"having_{at}"), escape="/") for at, name in enumerate(having)]


def by_number(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Return what sorts names by the numbers in them: checkpoints/x/0/20 before checkpoints/x/0/100."""
    parts = name.split("/")
    return tuple((part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts)


@prepared
def sum_of_revisions(table: Table) -> Select[Any]:
    return select(func.coalesce(func.sum(table.c.revision), 0))


@prepared
def request_of(table: Table) -> Select[Any]:
    return select(table.c.request_id, table.c.request_digest).where(table.c.name == bindparam("wanted"))


@prepared
def written(table: Table) -> Update:
    return update(table).where(table.c.name == bindparam("wanted"), table.c.revision == bindparam("seen"))
