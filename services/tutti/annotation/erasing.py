"""The erasure of what an annotator wrote in words; judgements stay, which have no text and no name."""

from collections.abc import Mapping

from sqlalchemy import ColumnElement, Table, and_, delete, func, select

from tutti.annotation.tables import Tables
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import ErasedAnnotator


def texts(tables: Tables, unit: Unit, campaign: str, annotator: str) -> ErasedAnnotator:
    """The counts of an annotator's texts."""
    found = ErasedAnnotator(campaign=campaign, key=annotator)
    for field, (table, mine) in _written(tables, campaign, annotator).items():
        setattr(found, field, unit.tx.execute(select(func.count()).select_from(table).where(mine)).scalar_one())
    return found


def erase(tables: Tables, unit: Unit, campaign: str, annotator: str) -> None:
    """Delete an annotator's texts."""
    for table, mine in _written(tables, campaign, annotator).values():
        unit.tx.execute(delete(table).where(mine))


def _written(tables: Tables, campaign: str, annotator: str) -> Mapping[str, tuple[Table, ColumnElement[bool]]]:
    """The tables with an annotator's texts, by the name of their count, and which of their rows are the annotator's."""

    def mine(table: Table) -> ColumnElement[bool]:
        return and_(table.c.campaign == campaign, table.c.annotator == annotator)

    said = select(tables.judgements.c.id).where(mine(tables.judgements))
    return {
        "comments": (tables.comments, tables.comments.c.judgement.in_(said)),
        "messages": (tables.messages, mine(tables.messages)),
        "demonstrations": (tables.written, mine(tables.written)),
    }
