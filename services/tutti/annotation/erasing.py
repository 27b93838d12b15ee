"""The erasure of what an annotator wrote in words; judgements stay, which have no text and no name."""

from sqlalchemy import Select, delete, func, select

from tutti.annotation.tables import Tables
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import ErasedAnnotator


def texts(tables: Tables, unit: Unit, campaign: str, annotator: str) -> ErasedAnnotator:
    """The counts of an annotator's texts."""
    comments, sent, written = tables.comments, tables.messages, tables.written

    def count(statement: Select[tuple[int]]) -> int:
        return int(unit.tx.execute(statement).scalar_one())

    mine = select(func.count()).select_from(comments)
    return ErasedAnnotator(
        campaign=campaign,
        key=annotator,
        comments=count(mine.where(comments.c.judgement.in_(_said(tables, campaign, annotator)))),
        messages=count(
            select(func.count()).select_from(sent).where(sent.c.campaign == campaign, sent.c.annotator == annotator)
        ),
        demonstrations=count(
            select(func.count())
            .select_from(written)
            .where(written.c.campaign == campaign, written.c.annotator == annotator)
        ),
    )


def erase(tables: Tables, unit: Unit, campaign: str, annotator: str) -> None:
    """Delete an annotator's texts."""
    comments = tables.comments
    unit.tx.execute(delete(comments).where(comments.c.judgement.in_(_said(tables, campaign, annotator))))
    for table in (tables.messages, tables.written):
        unit.tx.execute(delete(table).where(table.c.campaign == campaign, table.c.annotator == annotator))


def _said(tables: Tables, campaign: str, annotator: str) -> Select[tuple[str]]:
    table = tables.judgements
    return select(table.c.id).where(table.c.campaign == campaign, table.c.annotator == annotator)
