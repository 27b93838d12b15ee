"""Records of answers as resources: written at the end of an answer, and computed again on request.

Promises: a record has no text; what is compared follows from the request and the model alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from tutti.chassis.errors import Refused, Unavailable
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc import eventloop
from tutti.chassis.store.unit import Unit, Units
from tutti.chat.alternatives import Place, Token, check_place, continued, place_of, tokens_of
from tutti.chat.defaults import drawing_of
from tutti.chat.filter.release import NONE
from tutti.chat.generations import KEPT, Generation
from tutti.chat.journal import Begun, Entry, Finished, Said
from tutti.chat.keys import Keyed
from tutti.chat.models import Model
from tutti.chat.reasons import KEY_USED
from tutti.chat.records import CANCELLED, AnswerRecord, Verdict, digest_of_ids, verify
from tutti.chat.replaying import Replay, replayed
from tutti.chat.requests import ChatRequest
from tutti.chat.tables import Tables
from tutti.contracts.chat.v1 import Answer, Decision, Move
from tutti.inference.sampling import Sampling

SAME = (
    *("model", "tokenizer", "template", "signature", "exact", "request_digest", "seed", "prompt_digest", "ids_digest"),
    *("text_digest", "finished", "moved", "prompt_tokens", "completion_tokens", "filter", "decided"),
)
"""The parts of a record that the resource has under the same names."""
GONE = "the answer with this key was deleted: ask with another one"
JOURNAL = "journal"
"""The part that differs if the journaled token ids are not those of the record."""


class Answers:
    """`models` returns the deployments that serve now; `name` a new id of a completion."""

    def __init__(
        self, units: Units, tables: Tables, models: Callable[[], Sequence[Model]], name: Callable[[], str]
    ) -> None:
        self._units, self._tables, self._models, self._name = units, tables, models, name

    def commit(self, entries: Sequence[Entry]) -> None:
        """Write entries of the journal in one transaction."""
        self._units.run(lambda unit: self._write(unit, entries))

    def _write(self, unit: Unit, entries: Sequence[Entry]) -> None:
        rows, ended = self._tables.generations, [each for each in entries if isinstance(each, Finished)]
        rows.begin(unit, [each for each in entries if isinstance(each, Begun)])
        self._tables.keys.put(unit, [each for each in entries if isinstance(each, Keyed)])
        rows.add(unit, [each for each in entries if isinstance(each, Said)])
        for each in ended:
            if self._tables.answers.find(unit, each.begun.answer) is None:
                made = message_of(each.begun, each.record)
                made.ended_at.FromDatetime(unit.now)
                self._tables.answers.create(unit, made)
            self._tables.conversations.finish(unit, each.begun.answer, each.text, each.record.finished, each.reason)
        rows.end(unit, [each.begun.answer for each in ended])

    def keyed(self, who: Principal, key: str) -> Keyed | None:
        """The answers that a key of a user began, if there are any."""
        return self._units.run(lambda unit: self._tables.keys.find(unit, who, key))

    def sampling_of(self, name: str) -> Sampling:
        """The sampling of an answer that has begun. Raises Refused where its request is gone."""
        generation = self._units.run(lambda unit: self._tables.generations.find(unit, name))
        if generation is None:
            raise Refused("REQUEST_GONE", GONE)
        return generation.request.sampling(0)

    def replay(self, model: Model, names: Sequence[str]) -> list[tuple[Generation, Replay]] | None:
        """Answers of a model from the journal; None if one of them did not end by itself.

        Raises Refused where they are gone, or the model or its filter is another one now.
        """

        def look(unit: Unit) -> list[tuple[Answer | None, Generation | None]]:
            return [
                (self._tables.answers.find(unit, name), self._tables.generations.find(unit, name)) for name in names
            ]

        found, served = list[tuple[Generation, Replay]](), model.served
        for answer, generation in self._units.run(look):
            if generation is None:
                raise Refused("REQUEST_GONE", GONE)
            if answer is None or answer.finished == CANCELLED:
                return None
            if (answer.model, answer.filter) != (served.model, served.filter.digest):
                raise Refused(
                    KEY_USED, "another model or filter serves since the answer with this key: use another key"
                )
            found.append((generation, replayed(served, generation, answer.finished)))
        return found

    def verify(self, name: str, principal: Principal, seconds: float) -> Verdict:
        """Compute an answer again within a time.

        Raises NotFound, Refused where its request is gone, Unavailable where no replica of its model serves.
        """
        answer, generation = self._kept(name, principal)
        served = self._served(answer)
        record = record_in(answer)
        again = verify(
            *(served.served, generation.request, served.router, record), id=self._name(), said=len(generation.ids)
        )
        verdict = eventloop.run(again, seconds)
        if digest_of_ids(generation.ids) != record.ids_digest:
            verdict = Verdict((*verdict.differs, JOURNAL), verdict.bytes, verdict.signature)
        return verdict

    def tokens(self, name: str, principal: Principal) -> list[Token]:
        """The tokens of an answer that are wholly shown. Raises what `verify` raises."""
        answer, generation = self._kept(name, principal)
        return tokens_of(self._served(answer).served, generation, answer.finished)

    def place(self, name: str, principal: Principal, at: int, seconds: float) -> Place:
        """Compute a place of an answer within a time. Raises InvalidField, what `verify` raises."""
        answer, generation = self._kept(name, principal)
        check_place(self._served(answer).served, generation, answer.finished, at)
        model = self._serving(answer)
        found = place_of(model.served, generation, model.router, at, id=self._name(), salt=principal.tenant)
        return eventloop.run(found, seconds)

    def continued(self, name: str, principal: Principal, at: int, token: int) -> tuple[Model, ChatRequest]:
        """The request for an answer that is another one before place `at`, and has `token` there, and its model.

        It has the seed of the other one. Raises InvalidField, what `verify` raises.
        """
        answer, generation = self._kept(name, principal)
        request = continued(self._served(answer).served, generation, answer.finished, at, token)
        return self._serving(answer), replace(request, seed=answer.seed, given_seed=answer.seed)

    def _kept(self, name: str, principal: Principal) -> tuple[Answer, Generation]:
        """An answer, and its request and tokens. Raises NotFound, Refused."""
        answer, generation = self._units.run(
            lambda unit: (
                self._tables.answers.get_for(unit, name, principal),
                self._tables.generations.find(unit, name),
            )
        )
        if generation is None:
            days = KEPT // timedelta(days=1)
            raise Refused(
                "REQUEST_GONE", f"the request of {name} was deleted, after {days} days or with its conversation"
            )
        return answer, generation

    def _served(self, answer: Answer) -> Model:
        """A deployment with the model and the filter of an answer. Raises Unavailable, Refused."""
        models = self._of(answer)
        if not answer.filter:
            return replace(models[0], served=replace(models[0].served, filter=NONE))
        filtered = [each for each in models if each.served.filter.digest == answer.filter]
        if not filtered:
            raise Refused(
                "FILTER_GONE",
                f"no deployment has {answer.filter}, the filter of this answer: serve its checkpoint with the same "
                "--filter again",
            )
        return filtered[0]

    def _serving(self, answer: Answer) -> Model:
        """A deployment with the model of an answer and its filter as it is now; the one that answered if it serves."""
        return min(self._of(answer), key=lambda each: each.deployment != answer.deployment)

    def _of(self, answer: Answer) -> list[Model]:
        """The deployments with the model of an answer, at least one. Raises Unavailable."""
        models = [each for each in self._models() if each.served.model == answer.model]
        if not models:
            raise Unavailable(
                f"no deployment serves {answer.model}, the model of this answer: `tutti serve {answer.checkpoint}` "
                "serves it again",
                reason="NO_REPLICA",
            )
        return models


def message_of(begun: Begun, record: AnswerRecord) -> Answer:
    """The resource of a record, without the time of its end."""
    return Answer(
        sampling=drawing_of(begun.request.sampling(begun.seed)),
        name=begun.answer,
        tenant=begun.tenant,
        user=begun.user,
        deployment=begun.deployment,
        checkpoint=begun.checkpoint,
        moves=[Move(at=at, reason=reason) for at, reason in record.moves],
        decisions=[
            Decision(rule=rule, version=version, place=place, begin=begin, end=end)
            for rule, version, place, begin, end in record.decisions
        ],
        text_bytes=record.bytes,
        **{name: getattr(record, name) for name in SAME},
    )


def record_in(answer: Answer) -> AnswerRecord:
    """The record in a resource."""
    return AnswerRecord(
        moves=[[each.at, each.reason] for each in answer.moves],
        decisions=[[each.rule, each.version, each.place, each.begin, each.end] for each in answer.decisions],
        bytes=answer.text_bytes,
        **{name: getattr(answer, name) for name in SAME},
    )
