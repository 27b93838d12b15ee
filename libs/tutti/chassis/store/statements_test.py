"""Statements that are made once a table, and the tables that lives of a service share."""

import pytest
from sqlalchemy import Column, Integer, MetaData, Select, Table, bindparam, select
from sqlalchemy.exc import InvalidRequestError

from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.store.statements import prepared
from tutti.chassis.store.tables import declare, shared, tables_of


def number(metadata: MetaData) -> Table:
    return declare("numbers", metadata, Column("value", Integer, primary_key=True))


@prepared
def above(table: Table, *, falling: bool) -> Select[tuple[int]]:
    value = table.c.value
    return select(value).where(value > bindparam("least")).order_by(value.desc() if falling else value)


def test_a_statement_is_made_once_for_each_table_and_each_argument() -> None:
    table, other = number(MetaData()), number(MetaData())
    assert above(table, falling=True) is above(table, falling=True)
    assert above(table, falling=True) is not above(table, falling=False)
    assert above(table, falling=True) is not above(other, falling=True)


def test_it_reads_what_it_is_given() -> None:
    metadata = MetaData()
    table, database = number(metadata), EmbeddedDatabase(None, inline=True)
    database.create(metadata)

    def found(least: int, *, falling: bool) -> list[int]:
        return database.run(lambda tx: list(tx.execute(above(table, falling=falling), {"least": least}).scalars()))

    database.run(lambda tx: tx.execute(table.insert(), [{"value": each} for each in (1, 2, 3)]) and None)
    assert (found(1, falling=False), found(2, falling=False), found(0, falling=True)) == ([2, 3], [3], [3, 2, 1])
    database.close()


def test_a_table_that_is_declared_twice_is_an_error_but_for_lives_that_share_theirs() -> None:
    metadata, lives = MetaData(), shared()
    number(metadata)
    with pytest.raises(InvalidRequestError, match="numbers"):
        number(metadata)
    assert number(lives) is number(lives)
    assert tables_of(lives) is tables_of(lives)
    assert number(lives) is not number(shared())
