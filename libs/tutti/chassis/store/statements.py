"""Statements that are made once a table: what SQLAlchemy derives from one costs more than most of them take to run.

What differs from call to call is a `bindparam` of the statement, given to `execute` beside it.
"""

from collections.abc import Callable, Hashable
from typing import Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import Executable, Table

S = TypeVar("S", bound=Executable)
P = ParamSpec("P")


def prepared(make: Callable[Concatenate[Table, P], S]) -> Callable[Concatenate[Table, P], S]:
    """`make(table, ...)` is called once for each table and further arguments, which are few and hashable."""

    def found(table: Table, /, *args: P.args, **kwargs: P.kwargs) -> S:
        key: Hashable = (make, args, tuple(kwargs.items()))
        statement = table.info.get(key)
        if statement is None:
            statement = table.info[key] = make(table, *args, **kwargs)
        return cast(S, statement)

    return found
