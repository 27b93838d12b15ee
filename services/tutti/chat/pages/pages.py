"""The chat page, and the calls of its script.

Promises: a visitor gets conversations of his or her own and no others; a call changes nothing but those.
"""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from tutti.chassis.errors import InvalidField, NotFound, Unavailable
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.methods import find_method
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chat.answers import Answers
from tutti.chat.asking import Asking
from tutti.chat.conversations import MOST_SEARCH
from tutti.chat.defaults import as_json
from tutti.chat.filter.release import Filter, judged
from tutti.chat.generations import Generation
from tutti.chat.kinds import is_utf8
from tutti.chat.learning import Pasts
from tutti.chat.models import Model
from tutti.chat.overlap import Overlaps
from tutti.chat.pages.views import ChatView, overlap_view, past_view, place_view, release_view, shown
from tutti.chat.tables import Tables
from tutti.chat.turns import Turns, branch_of, turn_of
from tutti.contracts.chat.v1 import Answer, Deployment
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.evaluation.v1 import Release
from tutti.contracts.evaluation.v1.stubs import ComparisonServiceStub, ReleaseServiceStub
from tutti.contracts.lineage.v1.stubs import LineageServiceStub
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.web.pages import Api, Call, Entry, Follow, Get, Page, Post, Visit

ROLES = frozenset({Role.OPERATOR, Role.ENGINEER})
TURN = frozenset({"conversation", "revision", "parent", "text", "settings"})
BRANCH = frozenset({"conversation", "revision", "answer", "at", "token"})
TURN_BYTES = 512 << 10
"""A text of 64 KiB can be six times as long in JSON."""
VERIFY_SECONDS = 8.0
"""An answer that takes longer is verified by `tutti answers verify`."""
SHOW_DOCUMENT = find_method("/tutti.lineage.v1.LineageService/ShowDocument")
PLACE_SECONDS, RELEASE_SECONDS = 8.0, 3.0


class ChatPages:
    """`models` returns those that serve now."""

    def __init__(
        self, host: Host, tables: Tables, turns: Turns, answers: Answers, models: Callable[[], Sequence[Model]]
    ) -> None:
        self._units, self._tables, self._turns, self._answers = host.units, tables, turns, answers
        evaluation = host.channel("evaluation")
        self._models, self._releases = models, ReleaseServiceStub(evaluation)
        scheduler = SchedulerServiceStub(host.channel("scheduler"))
        self._pasts = Pasts(scheduler, self._releases, ComparisonServiceStub(evaluation), host.blobs)
        self._overlaps = Overlaps(LineageServiceStub(host.channel("lineage")), scheduler)

    @property
    def menu(self) -> list[Entry]:
        return [Entry("Chat", "/chat", ROLES)]

    @property
    def routes(self) -> list[Get | Post | Call | Api | Follow]:
        return [
            Get("/chat", self.page, ROLES),
            Get("/chat/{conversation}", self.page, ROLES),
            Call("/chat/api/models", self.models, ROLES),
            Call("/chat/api/past/{model}", self.past, ROLES),
            Call("/chat/api/conversations", self.list, ROLES),
            Call("/chat/api/conversations/{conversation}", self.get, ROLES),
            Call("/chat/api/moves/{conversation}", self.moves, ROLES),
            Call("/chat/api/why/{answer}", self.why, ROLES),
            Call("/chat/api/overlap/{answer}", self.overlap, ROLES),
            Call("/chat/api/tokens/{answer}", self.tokens, ROLES),
            Call("/chat/api/tokens/{answer}/{at}", self.place, ROLES),
            Call("/chat/api/branch", self.branch, ROLES, method="POST"),
            Call("/chat/api/say", self.say, ROLES, method="POST", max_bytes=TURN_BYTES),
            Call("/chat/api/count", self.count, ROLES, method="POST", max_bytes=TURN_BYTES),
            Call("/chat/api/stop", self.stop, ROLES, method="POST"),
            Call("/chat/api/rename", self.rename, ROLES, method="POST"),
            Call("/chat/api/delete", self.delete, ROLES, method="POST"),
            Call("/chat/api/report", self.report, ROLES, method="POST"),
            Call("/chat/api/verify", self.verify, ROLES, method="POST"),
            Follow("/chat/follow/{answer}", self.follow, ROLES),
        ]

    def page(self, visit: Visit) -> Page:
        """The page; its script learns by a call whether the conversation exists."""
        who = visit.principal
        return Page("chat.html", "Chat", ChatView(visit.path.get("conversation", ""), f"{who.tenant}/{who.user}"))

    def models(self, visit: Visit) -> object:
        """The models that answer now, with their context, their default sampling and their release."""
        models = sorted(self._models(), key=lambda each: each.name)
        deployments = self._units.run(
            lambda unit: [self._tables.deployments.get(unit, each.deployment) for each in models]
        )
        asking = Asking(RELEASE_SECONDS)
        return {
            "models": [
                {
                    "name": model.name,
                    "checkpoint": model.checkpoint,
                    "length": model.served.length,
                    "system": model.served.renderer.takes_system,
                    "sampling": {**as_json(model.defaults.sampling), "source": model.defaults.source},
                    "release": self._release(deployment, asking),
                }
                for model, deployment in zip(models, deployments, strict=True)
            ]
        }

    def past(self, visit: Visit) -> object:
        """The trainings and the subjects of a model that answers now, and prompts that its filter does not refuse."""
        name = visit.path["model"]
        found = next((each for each in self._models() if each.name == name), None)
        if found is None:
            raise NotFound(f"a model {name} that answers now")
        deployment = self._units.run(lambda unit: self._tables.deployments.get(unit, found.deployment))
        allows = partial(_allows, found.served.filter)
        return past_view(self._pasts.of(found.checkpoint, deployment.release, allows))

    def list(self, visit: Visit) -> object:
        words = visit.query.get("search", "")[:MOST_SEARCH].replace("\0", "")
        found = self._units.run(lambda unit: self._tables.conversations.find_all(unit, visit.principal, words))
        return {"conversations": [each.to_json() for each in found]}

    def get(self, visit: Visit) -> object:
        return shown(self._turns.shown(visit.principal, visit.path["conversation"]))

    def say(self, visit: Visit) -> object:
        return shown(self._turns.say(visit.principal, turn_of(_object(visit.body, TURN))))

    def branch(self, visit: Visit) -> object:
        """Continue an answer from a token on with another one."""
        return shown(self._turns.branch(visit.principal, branch_of(_object(visit.body, BRANCH))))

    def overlap(self, visit: Visit) -> object:
        """The spans of an answer in the training data, with documents for those who may read documents."""
        name, who = f"answers/{visit.path['answer']}", visit.principal

        def look(unit: Unit) -> tuple[str, str]:
            text = self._tables.conversations.text_of(unit, who, name)
            return self._tables.answers.get_for(unit, name, who).checkpoint, text

        checkpoint, text = self._units.run(look)
        readable = SHOW_DOCUMENT is not None and who.may(SHOW_DOCUMENT.roles)
        return overlap_view(self._overlaps.of(checkpoint, text), text, readable=readable)

    def tokens(self, visit: Visit) -> object:
        """The tokens of an answer that are shown."""
        found = self._answers.tokens(f"answers/{visit.path['answer']}", visit.principal)
        return {"tokens": [asdict(each) for each in found]}

    def place(self, visit: Visit) -> object:
        """The likeliest tokens in a place of an answer."""
        at = visit.path["at"]
        if not at.isascii() or not at.isdecimal() or len(at) > 9:
            raise InvalidField("at", seen=at, expected="the number of a token")
        try:
            found = self._answers.place(f"answers/{visit.path['answer']}", visit.principal, int(at), PLACE_SECONDS)
        except TimeoutError:
            raise Unavailable(f"the replicas had no answer within {PLACE_SECONDS:g} s: try again") from None
        return place_view(found)

    def count(self, visit: Visit) -> object:
        """The tokens of a turn that is not sent yet, and how many of the oldest messages would not fit."""
        return asdict(self._turns.count(visit.principal, turn_of(_object(visit.body, TURN))))

    def moves(self, visit: Visit) -> object:
        """The moves of the answers of a conversation to other replicas: their number by answer, where there are any."""
        ident, who = visit.path["conversation"], visit.principal

        def look(unit: Unit) -> dict[str, int]:
            rows = self._tables.conversations
            rows.get(unit, who, ident)
            names = (each.answer for each in rows.messages(unit, ident) if each.answer)
            found = (self._tables.answers.find(unit, name) for name in names)
            return {each.name: each.moved for each in found if each is not None and each.moved}

        return {"moves": self._units.run(look)}

    def stop(self, visit: Visit) -> object:
        self._turns.stop(visit.principal, *_fields(visit, "answer"))
        return {}

    def rename(self, visit: Visit) -> object:
        ident, title = _fields(visit, "conversation", "title")
        renamed = self._units.run(lambda unit: self._tables.conversations.rename(unit, visit.principal, ident, title))
        return renamed.to_json()

    def delete(self, visit: Visit) -> object:
        self._turns.delete(visit.principal, *_fields(visit, "conversation"))
        return {}

    def why(self, visit: Visit) -> object:
        """The record of an answer, and the release of its deployment."""
        name = f"answers/{visit.path['answer']}"

        def look(unit: Unit) -> tuple[Answer, Generation | None, Deployment | None]:
            answer = self._tables.answers.get_for(unit, name, visit.principal)
            generation = self._tables.generations.find(unit, name)
            return answer, generation, self._tables.deployments.find(unit, answer.deployment)

        answer, generation, deployment = self._units.run(look)
        return {
            "answer": answer.name,
            "deployment": answer.deployment,
            "checkpoint": answer.checkpoint,
            "model": answer.model,
            "exact": answer.exact,
            "seed": str(answer.seed),
            "temperature": generation.request.temperature if generation else None,
            "top_p": generation.request.top_p if generation else None,
            "top_k": generation.request.top_k if generation else None,
            "given": len(generation.request.given) if generation else 0,
            "finished": answer.finished,
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "bytes": answer.text_bytes,
            "moved": answer.moved,
            "moves": [{"at": each.at, "reason": each.reason} for each in answer.moves],
            "release": self._release(deployment, Asking(RELEASE_SECONDS)),
        }

    def verify(self, visit: Visit) -> object:
        [name] = _fields(visit, "answer")
        try:
            verdict = self._answers.verify(name, visit.principal, VERIFY_SECONDS)
        except TimeoutError:
            raise Unavailable(f"it takes more than {VERIFY_SECONDS:g} s: `tutti answers verify {name}`") from None
        return {"equal": verdict.equal, "differs": list(verdict.differs), "bytes": verdict.bytes}

    def report(self, visit: Visit) -> object:
        """Report that the filter refused an answer of the visitor wrongly."""
        name, words = _fields(visit, "answer", "words")
        who = visit.principal

        def report(unit: Unit) -> bool:
            answer = self._tables.answers.get_for(unit, name, who)
            if (answer.user, answer.tenant) != (who.user, who.tenant):
                raise NotFound(name)
            return self._tables.reports.add(unit, who, answer, words.strip())

        return {"new": self._units.run(report)}

    async def follow(self, visit: Visit) -> AsyncGenerator[str, None]:
        """The text of an answer from piece `after` on, and an event `ended`, after which the page reads it again."""
        after = visit.query.get("after", "0")
        if not after.isdecimal() or len(after) > 9:
            raise InvalidField("after", seen=after, expected="the number of a piece")
        pieces = self._turns.follow(visit.principal, f"answers/{visit.path['answer']}", int(after))
        try:
            async for number, text in pieces:
                yield json.dumps({"next": number, "text": text})
            yield json.dumps({"ended": True})
        finally:
            await pieces.aclose()

    def _release(self, deployment: Deployment | None, asking: Asking) -> object:
        """The release of a deployment as JSON; None for an experiment."""
        if deployment is None or not deployment.release:
            return None
        name = deployment.release  # which is known, whether or not the release can be read
        try:
            found: Release = asking.ask("evaluation", self._releases.GetRelease, GetRequest(name=name))
        except (NotFound, Unavailable) as error:
            return release_view(name, None, str(error))
        return release_view(name, found)


def _allows(filtered: Filter, prompt: str, answer: str) -> bool:
    """True if the filter refuses neither."""
    return not judged(filtered.prompt, prompt).decisions and not judged(filtered.answer, answer).decisions


def _object(body: object, keys: frozenset[str]) -> Mapping[str, object]:
    """Raises InvalidField."""
    if not isinstance(body, dict):
        raise InvalidField("body", seen=type(body).__name__, expected=f"an object with {', '.join(sorted(keys))}")
    if unknown := sorted(str(key) for key in body.keys() - keys):
        raise InvalidField(unknown[0][:100], seen="a field", expected=f"only {', '.join(sorted(keys))}")
    return body


def _fields(visit: Visit, *names: str) -> list[str]:
    """The texts of a body that has these fields and no others. Raises InvalidField."""
    body, found = _object(visit.body, frozenset(names)), list[str]()
    for name in names:
        value = body.get(name)
        if not isinstance(value, str) or "\0" in value or not is_utf8(value):
            raise InvalidField(name, seen=value, expected="a text")
        found.append(value)
    return found
