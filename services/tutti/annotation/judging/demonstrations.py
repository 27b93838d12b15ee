"""Demonstrations: better answers that annotators write to the prompts of pairs, each reviewed by a second person.

Promises: an answer comes with a judgement, so it arrives once; nobody reviews an answer of his or her own; an answer is
withdrawn whose judgement was undone, or does not count since its writer or its guideline was retracted, or its pair was
left out.
"""

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import and_, insert, select, update

from tutti.annotation.judging.judgements import Judgement
from tutti.annotation.judging.pairs import OUT
from tutti.annotation.judging.records import RETRACTED, Annotator
from tutti.annotation.tables import Tables
from tutti.chassis.errors import InvalidField, NotFound, Refused, declare
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import (
    DEMONSTRATION_STATE_ACCEPTED,
    DEMONSTRATION_STATE_REJECTED,
    DEMONSTRATION_STATE_WITHDRAWN,
    DEMONSTRATION_STATE_WRITTEN,
    Demonstration,
    ListWrittenDemonstrationsResponse,
    ReviewDemonstrationRequest,
)
from tutti.corpus.conversations.conversations import Conversation, InvalidConversation, Message, Role, messages_of
from tutti.records.canonical import canonical_json
from tutti.records.fields import Fields

WRITTEN, ACCEPTED, REJECTED, WITHDRAWN = "written", "accepted", "rejected", "withdrawn"
STATES = {
    WRITTEN: DEMONSTRATION_STATE_WRITTEN,
    ACCEPTED: DEMONSTRATION_STATE_ACCEPTED,
    REJECTED: DEMONSTRATION_STATE_REJECTED,
    WITHDRAWN: DEMONSTRATION_STATE_WITHDRAWN,
}
PAGE = 100
LONGEST_REASON = 500
OWN, GONE = "OWN_DEMONSTRATION", "DEMONSTRATION_WITHDRAWN"
declare(
    {
        OWN: "a demonstration is reviewed by somebody else than the person who wrote it",
        GONE: "the judgement that came with the demonstration was undone, or does not count",
    }
)


def keep(tables: Tables, unit: Unit, annotator: Annotator, pair: str, judgement: Judgement) -> None:
    """Store the answer that came with a judgement; that of a judgement that it supersedes is withdrawn."""
    table = tables.written
    if judgement.supersedes:
        unit.tx.execute(update(table).where(table.c.id == judgement.supersedes).values(state=WITHDRAWN))
    if judgement.demonstration:
        row = {"id": judgement.id, "campaign": annotator.campaign, "annotator": annotator.key, "pair": pair}
        words = json.dumps(judgement.demonstration)
        unit.tx.execute(insert(table), {**row, "words": words, "state": WRITTEN, "reviewer": "", "reason": ""})


def page(tables: Tables, unit: Unit, campaign: str, after: str) -> ListWrittenDemonstrationsResponse:
    """A page of the demonstrations of a campaign that come after an id."""
    statement = _joined(tables, campaign).order_by(tables.written.c.id).limit(PAGE + 1)
    rows = unit.tx.execute(statement.where(tables.written.c.id > after)).all()
    more = rows[PAGE - 1].id if len(rows) > PAGE else ""
    return ListWrittenDemonstrationsResponse(demonstrations=map(_shown, rows[:PAGE]), next_page_token=more)


def accepted(tables: Tables, unit: Unit, campaign: str) -> Iterator[Conversation]:
    """The conversations of a campaign that are accepted now."""
    for row in unit.tx.execute(_joined(tables, campaign).where(tables.written.c.state == ACCEPTED)):
        if not _is_withdrawn(row):
            yield _conversation(row)


def check(request: ReviewDemonstrationRequest) -> None:
    """Raises InvalidField."""
    if len(request.reason) > LONGEST_REASON:
        expected = f"at most {LONGEST_REASON} characters"
        raise InvalidField("reason", seen=f"{len(request.reason)} characters", expected=expected)
    if not request.accepted and not request.reason.strip():
        raise InvalidField("reason", seen="nothing", expected="why it is rejected, in words")


def review(
    tables: Tables, unit: Unit, campaign: str, request: ReviewDemonstrationRequest, reviewer: Principal
) -> Demonstration:
    """Record what a second person thinks; the newest review counts. Raises NotFound, Refused."""
    table = tables.written
    asked = _joined(tables, campaign).where(table.c.id == request.id)
    row = unit.tx.execute(asked).first()
    if row is None:
        raise NotFound(f"the demonstration {request.id[:100]} of {campaign}")
    if row.user == reviewer.user:
        raise Refused(OWN, f"{reviewer.user} wrote this demonstration; expected a review by a second person")
    if _shown(row).state == DEMONSTRATION_STATE_WITHDRAWN:
        raise Refused(GONE, f"the demonstration {row.id} is withdrawn; expected one that is not")
    if not request.validate_only:
        state = ACCEPTED if request.accepted else REJECTED
        values = {"state": state, "reviewer": reviewer.user, "reason": json.dumps(request.reason)}
        unit.tx.execute(update(table).where(table.c.id == row.id).values(values))
    return _shown(unit.tx.execute(asked).one())


def _joined(tables: Tables, campaign: str) -> Any:
    """Demonstrations with the prompts of their pairs, and what tells whether their judgements count."""
    own, pairs, people, said = tables.written, tables.pairs, tables.annotators, tables.judgements
    standing = (people.c.state.label("standing"), pairs.c.verdict, said.c.current)
    return (
        select(own, pairs.c.prompt, people.c.user, *standing)
        .join(said, said.c.id == own.c.id)
        .join(pairs, and_(pairs.c.campaign == own.c.campaign, pairs.c.id == own.c.pair))
        .join(people, and_(people.c.campaign == own.c.campaign, people.c.key == own.c.annotator))
        .where(own.c.campaign == campaign)
    )


def _is_withdrawn(row: Any) -> bool:
    """True if the judgement that the answer came with does not count."""
    return row.standing == RETRACTED or not row.current or row.verdict in OUT


def _conversation(row: Any) -> Conversation:
    prompt = Fields({"prompt": json.loads(row.prompt)}, path="pair", error=InvalidConversation)
    return Conversation((*messages_of(prompt, "prompt"), Message(Role.ASSISTANT, json.loads(row.words))))


def _shown(row: Any) -> Demonstration:
    line = canonical_json(_conversation(row).to_json()).decode()
    return Demonstration(
        campaign=row.campaign,
        id=row.id,
        annotator=row.annotator,
        state=DEMONSTRATION_STATE_WITHDRAWN if _is_withdrawn(row) else STATES[row.state],
        reviewer=row.reviewer,
        reason=json.loads(row.reason) if row.reason else "",
        line=line,
    )
