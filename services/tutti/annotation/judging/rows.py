"""Rows of a campaign: annotators, pairs, assignments, judgements, read and written one statement each.

Promises: counters of a pair are changed in the transaction of the assignment that they count.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    case,
    delete,
    func,
    insert,
    select,
    update,
)

from tutti.annotation.judging.judgements import UNKNOWN_MS, Judgement, JudgementKind
from tutti.annotation.judging.pairs import OUT, Kind, Pair
from tutti.annotation.judging.records import (
    ACTIVE,
    HELD,
    INVITED,
    JUDGED,
    LAPSED,
    LEASED,
    PASSED,
    RETRACTED,
    Annotator,
    Assigned,
    StoredJudgement,
)
from tutti.annotation.judging.statements import (
    annotator_statement,
    answered_statement,
    assigned_statement,
    counted_statement,
    free_statement,
    given_statement,
    in_state_statement,
    inserted_statement,
    judgement_statement,
    pair_of,
    recent_statement,
    row_of_pair,
    settled_so_far_statement,
    settled_statement,
)
from tutti.annotation.tables import Tables
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.corpus.conversations.conversations import Messages

BATCH = 500


class Rows:
    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def annotator(self, unit: Unit, campaign: str, *, user: str = "", key: str = "") -> Annotator | None:
        """The annotator of a campaign by user or by key, locked until the unit ends."""
        statement = annotator_statement(self.tables.annotators, "user" if user else "key")
        row = unit.tx.execute(statement, {"of": campaign, "wanted": user or key}).first()
        return Annotator(**row._mapping) if row else None

    def annotators(self, unit: Unit, campaign: str) -> list[Annotator]:
        table = self.tables.annotators
        rows = unit.tx.execute(select(table).where(table.c.campaign == campaign).order_by(table.c.key)).all()
        return [Annotator(**row._mapping) for row in rows]

    def has_active(self, unit: Unit, campaign: str) -> bool:
        """Return True if an annotator may judge pairs of the campaign."""
        table = self.tables.annotators
        found = select(table.c.key).where(table.c.campaign == campaign, table.c.state == ACTIVE).limit(1)
        return unit.tx.execute(found).first() is not None

    def campaigns_of(self, unit: Unit, user: str) -> list[str]:
        table = self.tables.annotators
        return [row.campaign for row in unit.tx.execute(select(table.c.campaign).where(table.c.user == user)).all()]

    def add_annotator(self, unit: Unit, made: Annotator) -> None:
        row = {name: getattr(made, name) for name in Annotator.__slots__}
        unit.tx.execute(insert(self.tables.annotators), row)

    def change_annotator(self, unit: Unit, found: Annotator, **values: object) -> None:
        table = self.tables.annotators
        unit.tx.execute(
            update(table).where(table.c.campaign == found.campaign, table.c.key == found.key).values(**values)
        )

    def add_pairs(self, unit: Unit, campaign: str, pairs: Sequence[Pair], needed: dict[int, int]) -> None:
        """`needed` judgements by the numbers of ordinary pairs; a pair that was brought with judgements has as many."""
        rows = [row_of_pair(campaign, pair, needed.get(pair.number, 0)) for pair in pairs]
        unit.tx.insert(self.tables.pairs, rows)

    def add_labels(self, unit: Unit, campaign: str, pairs: Sequence[Pair], guideline: str) -> Sequence[str]:
        """Add the judgements that pairs were brought with; the keys of their annotators, who are added too."""
        labels = [(pair, label) for pair in pairs for label in pair.labels]
        keys = sorted({label.annotator for _, label in labels})
        for key in keys:
            self.add_annotator(unit, Annotator(campaign, key, "", ACTIVE, "", guideline, 0))
        unit.tx.insert(
            self.tables.judgements,
            [
                {
                    "id": f"{campaign}/{pair.id}/{label.annotator}",
                    "campaign": campaign,
                    "annotator": label.annotator,
                    "pair": pair.id,
                    "kind": str(pair.kind),
                    "flipped": False,
                    "scores": json.dumps(dict(label.scores), sort_keys=True),
                    "said": str(JudgementKind.JUDGED),
                    "guideline": guideline,
                    "reason": "",
                    "shown_ms": UNKNOWN_MS,
                    "received_at": micros(unit.now),
                    "supersedes": "",
                    "current": True,
                    "simulated": False,
                    "digest": "",
                }
                for pair, label in labels
            ],
        )
        return keys

    def pairs(self, unit: Unit, campaign: str, ids: Iterable[str]) -> dict[str, Pair]:
        table, found, wanted = self.tables.pairs, dict[str, Pair](), sorted(set(ids))
        for begin in range(0, len(wanted), BATCH):
            among = table.c.id.in_(wanted[begin : begin + BATCH])
            for row in unit.tx.execute(select(table).where(table.c.campaign == campaign, among)).all():
                found[row.id] = pair_of(row)
        return found

    def numbered(self, unit: Unit, campaign: str, number: int) -> Pair:
        table = self.tables.pairs
        row = unit.tx.execute(select(table).where(table.c.campaign == campaign, table.c.number == number)).one()
        return pair_of(row)

    def has_pairs(self, unit: Unit, campaign: str) -> bool:
        table = self.tables.pairs
        return unit.tx.execute(select(table.c.id).where(table.c.campaign == campaign).limit(1)).first() is not None

    def free(self, unit: Unit, annotator: Annotator, kinds: Sequence[Kind], most: int, *, start: int = 0) -> list[Pair]:
        """At most so many pairs of these kinds that the annotator may be given, in order of their places from `start`.

        An ordinary pair has to need another judgement.
        """
        given = {"of": annotator.campaign, "by": annotator.key, "start": start}
        found = list[Pair]()
        for after in (True, False):
            if len(found) < most:
                statement = free_statement(
                    self.tables.pairs, self.tables.assignments, tuple(map(str, kinds)), after=after
                )
                rows = unit.tx.execute(statement, {**given, "most": most - len(found)}).all()
                found += [pair_of(row) for row in rows]
        return found

    def open(self, unit: Unit, annotator: Annotator) -> list[Assigned]:
        """The pairs that the annotator was given and has not answered, in the order in which they were given."""
        statement = in_state_statement(self.tables.pairs, self.tables.assignments)
        given = {"of": annotator.campaign, "by": annotator.key, "in": LEASED}
        rows = unit.tx.execute(statement, given).all()
        return [Assigned(pair_of(row), row.state, row.place, row.judgement) for row in rows]

    def recent(self, unit: Unit, annotator: Annotator, since: int) -> list[Assigned]:
        """The pairs that the annotator was given from a place on, answered or not, in order."""
        statement = recent_statement(self.tables.pairs, self.tables.assignments)
        rows = unit.tx.execute(statement, {"of": annotator.campaign, "by": annotator.key, "since": since}).all()
        return [Assigned(pair_of(row), row.state, row.place, row.judgement) for row in rows]

    def passed(self, unit: Unit, annotator: Annotator) -> set[Messages]:
        """The prompts of the pairs that the annotator skipped or flagged, without those of the qualification."""
        statement = in_state_statement(self.tables.pairs, self.tables.assignments)
        given = {"of": annotator.campaign, "by": annotator.key, "in": PASSED}
        rows = unit.tx.execute(statement, given).all()
        return {pair_of(row).prompt for row in rows if row.kind != Kind.QUALIFYING}

    def qualify_again(self, unit: Unit, annotator: Annotator) -> None:
        """Begin the qualification anew: its pairs are free again, and their judgements do not count."""
        own, table, pairs = self.tables.assignments, self.tables.judgements, self.tables.pairs
        qualifying = select(pairs.c.id).where(
            pairs.c.campaign == annotator.campaign, pairs.c.kind == str(Kind.QUALIFYING)
        )
        mine = (own.c.campaign == annotator.campaign, own.c.annotator == annotator.key, own.c.pair.in_(qualifying))
        unit.tx.execute(delete(own).where(*mine))
        said = (table.c.campaign == annotator.campaign, table.c.annotator == annotator.key)
        unit.tx.execute(update(table).where(*said, table.c.kind == str(Kind.QUALIFYING)).values(current=False))
        self.change_annotator(unit, annotator, state=INVITED, reason="")

    def holders(self, unit: Unit, campaign: str) -> dict[str, int]:
        """The time at which the open pairs of each annotator who has some expire, by key."""
        own = self.tables.assignments
        held = select(own.c.annotator, func.max(own.c.expires_at)).group_by(own.c.annotator)
        rows = unit.tx.execute(held.where(own.c.campaign == campaign, own.c.state == LEASED)).all()
        return {key: int(expires_at) for key, expires_at in rows}

    def settled(self, unit: Unit, campaign: str) -> int:
        """Assignments of a campaign that are no longer open: answered, or taken back."""
        statement = settled_so_far_statement(self.tables.annotators, self.tables.assignments)
        return int(unit.tx.execute(statement, {"of": campaign}).scalar_one())

    def assigned(self, unit: Unit, annotator: Annotator, pair: str) -> Assigned | None:
        statement = assigned_statement(self.tables.pairs, self.tables.assignments)
        row = unit.tx.execute(statement, {"of": annotator.campaign, "by": annotator.key, "wanted": pair}).first()
        return Assigned(pair_of(row), row.state, row.place, row.judgement) if row else None

    def assign(self, unit: Unit, annotator: Annotator, pair: Pair, place: int, expires_at: int) -> None:
        row = {
            "campaign": annotator.campaign,
            "annotator": annotator.key,
            "pair": pair.id,
            "place": place,
            "state": LEASED,
            "expires_at": expires_at,
            "judgement": "",
        }
        unit.tx.execute(given_statement(self.tables.assignments, unit.tx.skip_locked), row)
        self._count(unit, annotator.campaign, pair, given=1)

    def renew(self, unit: Unit, annotator: Annotator, expires_at: int) -> None:
        own = self.tables.assignments
        mine = (own.c.campaign == annotator.campaign, own.c.annotator == annotator.key, own.c.state == LEASED)
        unit.tx.execute(update(own).where(*mine).values(expires_at=expires_at))

    def settle(self, unit: Unit, annotator: Annotator, assigned: Assigned, state: str, judgement: str = "") -> None:
        """Give an assignment another state, and count that at its pair."""
        of = {"of": annotator.campaign, "by": annotator.key, "wanted": assigned.pair.id}
        unit.tx.execute(settled_statement(self.tables.assignments), {**of, "state": state, "judgement": judgement})
        given = (state in HELD) - (assigned.state in HELD)
        self._count(
            unit,
            annotator.campaign,
            assigned.pair,
            given=given,
            judged=(state == JUDGED) - (assigned.state == JUDGED),
        )

    def lapse(self, unit: Unit, campaign: str, most: int = BATCH) -> int:
        """Take back assignments whose time is over; how many."""
        own = self.tables.assignments
        late = (own.c.campaign == campaign, own.c.state == LEASED, own.c.expires_at < micros(unit.now))
        rows = unit.tx.execute(select(own).where(*late).order_by(own.c.annotator, own.c.pair).limit(most)).all()
        self._lapsed(unit, campaign, rows)
        return len(rows)

    def take_back(self, unit: Unit, campaign: str, pairs: Iterable[str]) -> None:
        """Take back the assignments of these pairs that nobody has answered."""
        own, among = self.tables.assignments, sorted(pairs)
        for begin in range(0, len(among), BATCH):
            open_ = (own.c.campaign == campaign, own.c.state == LEASED, own.c.pair.in_(among[begin : begin + BATCH]))
            self._lapsed(unit, campaign, unit.tx.execute(select(own).where(*open_)).all())

    def _lapsed(self, unit: Unit, campaign: str, rows: Sequence[Any]) -> None:
        pairs = self.pairs(unit, campaign, [row.pair for row in rows])
        for row in rows:
            holder = Annotator(campaign, row.annotator, "", "", "", "", 0)
            self.settle(unit, holder, Assigned(pairs[row.pair], row.state, row.place, ""), LAPSED)

    def judgement(self, unit: Unit, id: str) -> Any:
        """The row of a judgement, None if there is none."""
        return unit.tx.execute(judgement_statement(self.tables.judgements), {"wanted": id}).first()

    def add_judgement(
        self, unit: Unit, annotator: Annotator, pair: Pair, judgement: Judgement, *, flipped: bool, simulated: bool
    ) -> None:
        table = self.tables.judgements
        row = {
            "id": judgement.id,
            "campaign": annotator.campaign,
            "annotator": annotator.key,
            "pair": pair.id,
            "kind": str(pair.kind),
            "flipped": flipped,
            "scores": json.dumps(dict(judgement.scores), sort_keys=True),
            "said": str(judgement.said),
            "guideline": judgement.guideline,
            "reason": judgement.reason,
            "shown_ms": judgement.shown_ms,
            "received_at": micros(unit.now),
            "supersedes": judgement.supersedes,
            "current": True,
            "simulated": simulated,
            "digest": judgement.digest,
        }
        if judgement.supersedes:
            unit.tx.execute(update(table).where(table.c.id == judgement.supersedes).values(current=False))
        unit.tx.execute(inserted_statement(table), row)
        if judgement.comment:
            comment = {"judgement": judgement.id, "campaign": annotator.campaign, "words": judgement.comment}
            unit.tx.execute(insert(self.tables.comments), comment)

    def kept(
        self,
        unit: Unit,
        campaign: str,
        *,
        annotator: str = "",
        kinds: Sequence[Kind] = (),
        counted: bool = False,
        first: bool = False,
    ) -> Iterator[StoredJudgement]:
        """The judgements of a campaign that no other one supersedes, in order of annotator and arrival.

        `counted`: without those of annotators who were retracted, and of pairs that are left out. `first`: those that
        supersede no other one, instead.
        """
        table = self.tables.judgements
        newest = table.c.supersedes == "" if first else table.c.current.is_(True)
        conditions = [table.c.campaign == campaign, newest]
        conditions += [table.c.annotator == annotator] if annotator else []
        conditions += [table.c.kind.in_([str(kind) for kind in kinds])] if kinds else []
        if counted:
            people, pairs = self.tables.annotators, self.tables.pairs
            gone = select(people.c.key).where(people.c.campaign == campaign, people.c.state == RETRACTED)
            out = select(pairs.c.id).where(pairs.c.campaign == campaign, pairs.c.verdict.in_(OUT))
            conditions += [table.c.annotator.not_in(gone), table.c.pair.not_in(out)]
        order = (table.c.annotator, table.c.received_at, table.c.id)
        for row in unit.tx.execute(select(table).where(*conditions).order_by(*order)).all():
            yield StoredJudgement(
                row.id,
                row.annotator,
                row.pair,
                row.kind,
                bool(row.flipped),
                json.loads(row.scores),
                row.said,
                row.guideline,
                row.shown_ms,
                row.received_at,
            )

    def lengths(self, unit: Unit, campaign: str) -> Mapping[str, int]:
        """The characters of the two answers of each pair, by its id."""
        table = self.tables.pairs
        statement = select(table.c.id, table.c.first, table.c.second).where(table.c.campaign == campaign)
        rows = unit.tx.execute(statement).all()
        return {row.id: len(json.loads(row.first)) + len(json.loads(row.second)) for row in rows}

    def first_pairs(self, unit: Unit, campaign: str, most: int) -> list[Pair]:
        """The first ordinary pairs, by their places."""
        table = self.tables.pairs
        among = (table.c.campaign == campaign, table.c.kind == str(Kind.ORDINARY))
        statement = select(table).where(*among).order_by(table.c.number).limit(most)
        return [pair_of(row) for row in unit.tx.execute(statement).all()]

    def judged(self, unit: Unit, campaign: str) -> tuple[int, int, int]:
        """Counts of the ordinary pairs: judgements, judgements needed so far, and pairs that lack some."""
        table = self.tables.pairs
        ordinary = (table.c.campaign == campaign, table.c.kind == str(Kind.ORDINARY), table.c.verdict.not_in(OUT))
        lacks = func.sum(case((table.c.judged < table.c.needed, 1), else_=0))
        sums = [func.coalesce(each, 0) for each in (func.sum(table.c.judged), func.sum(table.c.needed), lacks)]
        judged, needed, lacking = unit.tx.execute(select(*sums).where(*ordinary)).one()
        return int(judged), int(needed), int(lacking)

    def newest(self, unit: Unit, campaign: str) -> int:
        """Return the time of the last judgement that arrived, in microseconds; 0 if there is none."""
        table = self.tables.judgements
        found = select(func.max(table.c.received_at)).where(table.c.campaign == campaign)
        return int(unit.tx.execute(found).scalar_one() or 0)

    def answered(self, unit: Unit, annotator: Annotator) -> int:
        """Pairs that the annotator judged, skipped or flagged, without those of the qualification."""
        of = {"of": annotator.campaign, "by": annotator.key}
        return int(unit.tx.execute(answered_statement(self.tables.judgements), of).scalar_one())

    def needs(self, unit: Unit, campaign: str) -> list[tuple[str, int, int]]:
        """Id, number and needed judgements of every ordinary pair that counts, by number."""
        table = self.tables.pairs
        rows = unit.tx.execute(
            select(table.c.id, table.c.number, table.c.needed)
            .where(table.c.campaign == campaign, table.c.kind == str(Kind.ORDINARY), table.c.verdict.not_in(OUT))
            .order_by(table.c.number)
        ).all()
        return [(row.id, row.number, row.needed) for row in rows]

    def need_more(self, unit: Unit, campaign: str, ids: Sequence[str]) -> None:
        table = self.tables.pairs
        for begin in range(0, len(ids), BATCH):
            among = table.c.id.in_(ids[begin : begin + BATCH])
            unit.tx.execute(update(table).where(table.c.campaign == campaign, among).values(needed=table.c.needed + 1))

    def release(self, unit: Unit, annotator: Annotator) -> None:
        """Count nothing of the annotator at any pair, so that others are given what is lacking."""
        own = self.tables.assignments
        mine = (own.c.campaign == annotator.campaign, own.c.annotator == annotator.key, own.c.state.in_(HELD))
        rows = unit.tx.execute(select(own).where(*mine).order_by(own.c.place)).all()
        pairs = self.pairs(unit, annotator.campaign, [row.pair for row in rows])
        for row in rows:
            assigned = Assigned(pairs[row.pair], row.state, row.place, row.judgement)
            self.settle(unit, annotator, assigned, LAPSED, row.judgement)

    def texts(self, unit: Unit, campaign: str) -> tuple[str, str]:
        """The lines of pairs and of qualifying pairs that its owner brought."""
        table = self.tables.texts
        row = unit.tx.execute(select(table).where(table.c.campaign == campaign)).first()
        return (json.loads(row.pairs), json.loads(row.qualifying)) if row else ("", "")

    def add_texts(self, unit: Unit, campaign: str, pairs: str, qualifying: str) -> None:
        table = self.tables.texts
        if unit.tx.execute(select(table.c.campaign).where(table.c.campaign == campaign)).first() is None:
            row = {"campaign": campaign, "pairs": json.dumps(pairs), "qualifying": json.dumps(qualifying)}
            unit.tx.execute(insert(table), row)

    def guideline(self, unit: Unit, campaign: str, version: str) -> str | None:
        table = self.tables.guidelines
        row = unit.tx.execute(
            select(table.c.words).where(table.c.campaign == campaign, table.c.version == version)
        ).first()
        return str(json.loads(row.words)) if row else None

    def add_guideline(self, unit: Unit, campaign: str, version: str, text: str) -> None:
        """The same text again changes nothing."""
        if self.guideline(unit, campaign, version) is None:
            table = self.tables.guidelines
            count = select(func.count()).select_from(table).where(table.c.campaign == campaign)
            place = int(unit.tx.execute(count).scalar_one())
            row = {"campaign": campaign, "version": version, "place": place, "words": json.dumps(text)}
            unit.tx.execute(insert(table), row)

    def _count(self, unit: Unit, campaign: str, pair: Pair, *, given: int = 0, judged: int = 0) -> None:
        if given or judged:
            values = {"of": campaign, "wanted": pair.id, "more_given": given, "more_judged": judged}
            unit.tx.execute(counted_statement(self.tables.pairs), values)
