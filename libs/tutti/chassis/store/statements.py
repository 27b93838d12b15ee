"""Statements that are made once a table: what SQLAlchemy derives from one costs more than most of them take to run.

What differs from call to call is a `bindparam` of the statement, given to `execute` beside it.
"""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import ColumnElement, Executable, Table, any_, bindparam
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import SQLAlchemyError

from tutti.native.deferred import deferred

if TYPE_CHECKING:
    from sqlalchemy.dialects import sqlite
else:  # on Postgres it is not needed
    sqlite = deferred("sqlalchemy.dialects.sqlite")

S = TypeVar("S", bound=Executable)
P = ParamSpec("P")
UNREADABLE = (SQLAlchemyError, UnicodeDecodeError)
"""Errors of a statement whose rows a driver cannot decode."""


def prepared(make: Callable[Concatenate[Table, P], S]) -> Callable[Concatenate[Table, P], S]:
    """`make(table, ...)` is called once for each table and further arguments, which are few and hashable."""

    def found(table: Table, /, *args: P.args, **kwargs: P.kwargs) -> S:
        key: Hashable = (make, args, tuple(kwargs.items()))
        statement = table.info.get(key)
        if statement is None:
            statement = table.info[key] = make(table, *args, **kwargs)
        return cast(S, statement)

    return found


def among(column: ColumnElement[Any], name: str, arrays: bool) -> ColumnElement[bool]:
    """Return the condition that `column` is in the list that is given as `name`.

    With `arrays` the list is one parameter, so the text of the statement does not depend on its length. Postgres has
    them (`Transaction.skip_locked`), SQLite does not.
    """
    if arrays:
        return column == any_(bindparam(name, type_=postgresql.ARRAY(column.type)))
    return column.in_(bindparam(name, expanding=True))


def upsert(table: Table, postgres: bool) -> Any:
    """Return an INSERT that can be given ON CONFLICT, which SQLAlchemy has for each dialect alone.

    `postgres`: for Postgres (`Transaction.skip_locked`), else for SQLite.
    """
    return (postgresql.insert if postgres else sqlite.insert)(table)
