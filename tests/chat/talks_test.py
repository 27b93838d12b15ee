"""Conversations over HTTP, as the script of the chat page calls: private, streamed by number, stopped and deleted."""

import itertools
import json
import math
import string
import threading
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from tests.chat.platforms import CHAT_BUILDS, planted
from tests.chat.replicas import START_SECONDS, await_that
from tests.web.commands_test import tutti
from tests.web.hosted import Answer, Hosted, Visitor, hosted
from tests.web.tokens_test import issue, user
from tutti.chassis.errors import PermissionDenied, Refused
from tutti.chassis.identity.auth import Role
from tutti.client import connect
from tutti.contracts.access.v1 import EraseUserRequest, ListUsageRequest
from tutti.contracts.chat.v1 import (
    DEPLOYMENT_STATE_READY,
    FILTER_SIDE_PROMPT,
    CreateDeploymentRequest,
    DeploymentSpec,
    FilterRule,
    FilterSpec,
    ListReportsRequest,
    VerifyAnswerRequest,
)
from tutti.contracts.common.v1 import GetRequest

NAME = "deployments/toy"
FILTER = FilterSpec(rules=[FilterRule(name="codename", version=1, pattern="nightfall", side=FILTER_SIDE_PROMPT)])
OTHERS = ["other", "operator"]
PAIRS = ["".join(each) for each in itertools.product(string.ascii_lowercase[:12], repeat=2)]


class Caller:
    """A browser without a screen, whose script calls."""

    def __init__(self, served: Hosted, person: str) -> None:
        self.visitor = Visitor(served.url)
        self.visitor.log_in(served.link(person))
        self.token = self.visitor.get("/chat/api/models").headers["x-form-token"]

    def get(self, path: str) -> Answer:
        return self.visitor.get(f"/chat/api/{path}")

    def post(self, name: str, **body: Any) -> Answer:
        sent = {"sec-fetch-site": "same-origin", "content-type": "application/json", "x-form-token": self.token}
        return self.visitor.send("POST", f"/chat/api/{name}", json.dumps(body), sent)

    def say(self, text: str | None, conversation: Any = None, parent: str = "", **settings: Any) -> Answer:
        """Send a turn behind the last message of a conversation, or the first one of a new one."""
        if conversation is None:
            conversation = {"id": str(uuid.uuid4()), "revision": 0, "messages": []}
        parent = parent or (conversation["messages"][-1]["id"] if conversation["messages"] else "")
        body = {"conversation": conversation["id"], "revision": conversation["revision"], "parent": parent}
        chosen = {"model": "toy", "max_tokens": 12, **settings}
        return self.post("say", **body, settings=chosen, **({} if text is None else {"text": text}))

    def follow(self, answer: str, after: int = 0) -> list[Any]:
        """The events of an answer until its stream ends."""
        found = self.visitor.get(f"/chat/follow/{answer.removeprefix('answers/')}?after={after}")
        assert found.status == 200, found.text
        return [json.loads(each[6:]) for each in found.text.split("\n") if each.startswith("data: ")]

    def answered(self, found: Answer) -> Any:
        """A conversation after the end of the answer that a turn began."""
        assert found.status == 200, found.text
        self.follow(found.json["messages"][-1]["answer"])
        return self.get(f"conversations/{found.json['id']}").json


class World:
    def __init__(self, served: Hosted) -> None:
        self.served, self.checkpoint = served, planted(served)
        with served.client() as operator:
            self.people = {name: user(operator, name) for name in ("ada", "other")}
        self.deploy(FILTER)
        self.callers = {name: Caller(served, each) for name, each in {**self.people, "operator": ""}.items()}
        self.ada = self.callers["ada"]

    def deploy(self, filtered: FilterSpec) -> None:
        """Serve the checkpoint behind a filter, and wait until it is ready."""
        spec = DeploymentSpec(checkpoint=self.checkpoint, replicas=1, experimental=True, filter=filtered)
        with self.served.client() as operator:
            operator.chat.CreateDeployment(CreateDeploymentRequest(name=NAME, spec=spec))
            self.await_ready(operator)

    def await_ready(self, operator: Any) -> None:
        def ready() -> bool:
            return bool(operator.chat.GetDeployment(GetRequest(name=NAME)).state == DEPLOYMENT_STATE_READY)

        await_that(ready, f"{NAME} to be ready", START_SECONDS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hosted(tmp_path_factory.mktemp("platform"), builds=CHAT_BUILDS) as served:
        yield World(served)


def test_open_prints_a_link_to_the_chat(world: World) -> None:
    url = tutti(world.served, "open", "--chat", "--no-browser")["url"]
    visitor = Visitor(world.served.url)
    visitor.log_in(urlsplit(url).path.rpartition("/")[2])
    assert url.endswith("?next=/chat")
    assert visitor.get("/chat").status == 200


def test_an_answer_is_read_from_any_number_on_and_stored_as_it_was_shown(world: World) -> None:
    begun = world.ada.say("a b c")
    answer = begun.json["messages"][-1]["answer"]
    events = world.ada.follow(answer)
    stored = world.ada.get(f"conversations/{begun.json['id']}").json
    text = stored["messages"][-1]["text"]
    assert "".join(each.get("text", "") for each in events) == text
    assert events[-1] == {"ended": True}
    last = events[-2]["next"]
    rests = ["".join(each.get("text", "") for each in world.ada.follow(answer, after)) for after in range(last + 1)]
    assert rests[0] == text
    assert all(text.endswith(each) for each in rests)
    assert [len(each) for each in rests] == sorted((len(each) for each in rests), reverse=True)
    assert rests[-1] == ""
    assert (stored["messages"][-1]["state"], stored["revision"]) == ("whole", 2)
    why = world.ada.get(f"why/{answer.removeprefix('answers/')}").json
    assert (why["answer"], why["deployment"], why["release"]) == (answer, NAME, None)
    verdict = world.ada.post("verify", answer=answer).json
    assert verdict == {"equal": True, "differs": [], "bytes": len(text.encode())}


def test_answers_of_the_page_count_for_their_users(world: World) -> None:
    def used(operator: Any, name: str) -> tuple[int, int]:
        found = operator.access.ListUsage(ListUsageRequest(user=world.people[name])).usage
        return sum(each.requests for each in found), sum(each.completion_tokens for each in found)

    names = ("ada", "other")
    with world.served.client() as operator:
        before = {name: used(operator, name) for name in names}
        begun = {name: world.callers[name].say("a b c", max_tokens=200) for name in names}
        for name, each in begun.items():
            found = world.callers[name].answered(each)["messages"][-1]
            assert (found["state"], found["reason"]) == ("whole", ""), found
            requests, tokens = (now - then for now, then in zip(used(operator, name), before[name], strict=True))
            answer = operator.chat.GetAnswer(GetRequest(name=found["answer"]))
            assert (requests, tokens) == (1, answer.completion_tokens)


@pytest.mark.parametrize("name", OTHERS)
def test_the_conversations_of_others_do_not_exist(world: World, name: str) -> None:
    talk = world.ada.say("a secret", max_tokens=200).json
    answer, other = talk["messages"][-1]["answer"], world.callers[name]
    ident = answer.removeprefix("answers/")
    calls = [
        other.get(f"conversations/{talk['id']}"),
        other.say("b", talk),
        other.post("rename", conversation=talk["id"], title="mine"),
        other.post("delete", conversation=talk["id"]),
        other.post("stop", answer=answer),
        other.post("verify", answer=answer),
        other.get(f"why/{ident}"),
        other.get(f"tokens/{ident}"),
        other.get(f"tokens/{ident}/0"),
        other.get(f"moves/{talk['id']}"),
        branched(other, talk),
    ]
    assert [each.status for each in calls] == [404] * len(calls)
    assert other.get("conversations?search=secret").json == {"conversations": []}
    assert "".join(each.get("text", "") for each in other.follow(answer)) == ""
    stored = world.ada.answered(world.ada.get(f"conversations/{talk['id']}"))
    assert (stored["title"], stored["messages"][-1]["state"]) == ("a secret", "whole")


def test_of_two_tabs_that_send_at_once_one_learns_of_the_other(world: World) -> None:
    conversation = world.ada.answered(world.ada.say("a", max_tokens=1))
    for number in range(5):
        found = list[Answer]()

        def send(text: str, found: list[Answer] = found, seen: Any = conversation) -> None:
            found.append(world.ada.say(text, seen, max_tokens=1))

        tabs = [threading.Thread(target=send, args=(f"{number} of {tab}",)) for tab in "ab"]
        for each in tabs:
            each.start()
        for each in tabs:
            each.join()
        assert sorted(each.status for each in found) == [200, 409]
        [taken], [refused] = ([each for each in found if each.status == status] for status in (200, 409))
        assert refused.json["error"]["reason"] == "CONVERSATION_CHANGED"
        conversation = world.ada.answered(taken)
        assert len(conversation["messages"]) == 4 + 2 * number


def test_an_answer_is_made_again_beside_the_first_and_a_message_is_edited_into_a_branch(world: World) -> None:
    first = world.ada.answered(world.ada.say("a b"))
    said, answer = first["messages"]
    again = world.ada.answered(world.ada.say(None, first, parent=said["id"]))
    assert [each["parent"] for each in again["messages"]] == ["", said["id"], said["id"]]
    body = {"conversation": again["id"], "revision": again["revision"], "parent": "", "text": "b a"}
    branch = world.ada.answered(world.ada.post("say", **body, settings={"model": "toy", "max_tokens": 1}))
    assert [each["parent"] for each in branch["messages"] if each["role"] == "user"] == ["", ""]
    assert [each["text"] for each in branch["messages"][:2]] == [said["text"], answer["text"]]


def ident_of(talk: Any) -> str:
    """The id of the last answer of a conversation."""
    return str(talk["messages"][-1]["answer"].removeprefix("answers/"))


def branched(caller: Caller, talk: Any, **change: Any) -> Answer:
    """Continue the last answer of a conversation with another token."""
    body = {"conversation": talk["id"], "revision": talk["revision"], "answer": talk["messages"][-1]["answer"]}
    return caller.post("branch", **{**body, "at": 0, "token": 97, **change})


def with_tokens(world: World) -> tuple[Any, list[Any]]:
    """A conversation whose answer has a few tokens, and these."""
    for _ in range(9):
        talk = world.ada.answered(world.ada.say("a b c"))
        tokens = world.ada.get(f"tokens/{ident_of(talk)}").json["tokens"]
        if len(tokens) > 2:
            return talk, tokens
    raise AssertionError("each answer ended at once")


def test_the_tokens_of_an_answer_have_the_probabilities_of_the_api(world: World) -> None:
    talk, tokens = with_tokens(world)
    ident, text = ident_of(talk), "".join(each["text"] for each in tokens)
    assert talk["messages"][-1]["text"] in (text, f"{text}\ufffd"), "a character at the end can be incomplete"
    body = {"model": "toy", "messages": [{"role": "user", "content": "a b c"}], "max_tokens": 12}
    with world.served.client() as operator:
        token = issue(operator, world.people["ada"])[0]
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    seed = int(world.ada.get(f"why/{ident}").json["seed"])
    sent = json.dumps({**body, "seed": seed, "logprobs": True, "top_logprobs": 8})
    asked = Visitor(world.served.url).send("POST", "/v1/chat/completions", sent, headers)
    scored = asked.json["choices"][0]["logprobs"]["content"]
    assert scored
    for at, score in enumerate(scored):
        found = world.ada.get(f"tokens/{ident}/{at}").json
        assert found["chosen"] == tokens[at]["id"]
        expected = {math.exp(each["logprob"]) for each in score["top_logprobs"]}
        assert expected <= {each["probability"] for each in found["likeliest"]}
        chosen = {each["id"]: each["probability"] for each in found["likeliest"]}[found["chosen"]]
        assert chosen == math.exp(score["logprob"])


def test_an_answer_that_is_continued_with_another_token_has_the_same_bytes_before_it(world: World) -> None:
    talk, tokens = with_tokens(world)
    first = talk["messages"][-1]
    for at in (0, len(tokens) // 2, len(tokens) - 1):
        likeliest = world.ada.get(f"tokens/{ident_of(talk)}/{at}").json["likeliest"]
        other = next(each for each in likeliest if each["id"] != tokens[at]["id"])
        for token in (other, tokens[at]):
            found = world.ada.answered(branched(world.ada, talk, at=at, token=token["id"]))
            branch = found["messages"][-1]
            assert branch["text"].startswith("".join(each["text"] for each in tokens[:at]))
            assert branch["parent"] == first["parent"]
            assert token is other or branch["text"] == first["text"], "equal tokens have equal continuations"
            assert world.ada.post("verify", answer=branch["answer"]).json["equal"]
            assert world.ada.get(f"why/{ident_of(found)}").json["given"] == found["messages"][-1]["given"] == at + 1
            again = [each["id"] for each in world.ada.get(f"tokens/{ident_of(found)}").json["tokens"]]
            given = [*(each["id"] for each in tokens[:at]), token["id"]]
            assert again[: at + 1] == given[: len(again)]
            talk = {**talk, "revision": found["revision"]}


BAD_BRANCHES: list[tuple[str, dict[str, Any]]] = [
    *[("at", {"at": each}) for each in (-1, 12, "0", None)],
    *[("token", {"token": each}) for each in (-1, 1 << 70, None, 0.5)],
    *[("answer", {"answer": each}) for each in ("answers/other", "", 7)],
    ("more", {"more": 1}),
]


def test_a_bad_branch_is_refused_by_its_field(world: World) -> None:
    talk = world.ada.answered(world.ada.say("a", max_tokens=2))
    for field, change in BAD_BRANCHES:
        found = branched(world.ada, talk, **change)
        assert (found.status, found.json["error"]["reason"]) == (400, "INVALID_FIELD")
        assert found.json["error"]["message"].startswith(field)
    assert world.ada.get(f"conversations/{talk['id']}").json == talk


def test_a_branch_of_a_state_that_was_not_seen_is_refused(world: World) -> None:
    talk = world.ada.answered(world.ada.say("a", max_tokens=2))
    assert branched(world.ada, talk, revision=1).json["error"]["reason"] == "CONVERSATION_CHANGED"


def test_a_turn_that_was_refused_has_no_tokens(world: World) -> None:
    talk = world.ada.answered(world.ada.say("nightfall"))
    assert world.ada.get(f"tokens/{ident_of(talk)}").json == {"tokens": []}
    assert world.ada.get(f"tokens/{ident_of(talk)}/0").status == 400
    assert branched(world.ada, talk).status == 400


def test_an_answer_that_the_filter_cut_shows_no_token_and_is_not_continued(world: World) -> None:
    rules = [FilterRule(name=f"pair-{each}", version=1, pattern=each, inside=True) for each in PAIRS]
    world.deploy(FilterSpec(rules=rules))
    talks = (world.ada.answered(world.ada.say("a b c", max_tokens=60)) for _ in range(200))
    talk = next(each for each in talks if each["messages"][-1]["finished"] == "content_filter")
    assert world.ada.get(f"tokens/{ident_of(talk)}").json == {"tokens": []}
    written = world.ada.get(f"why/{ident_of(talk)}").json["completion_tokens"]
    assert written > 0
    for at in range(written):
        assert world.ada.get(f"tokens/{ident_of(talk)}/{at}").status == 400
        assert branched(world.ada, talk, at=at).status == 400
    assert world.ada.get(f"conversations/{talk['id']}").json == talk
    world.deploy(FILTER)


def test_a_stopped_answer_keeps_what_it_had_and_says_so(world: World) -> None:
    begun = world.ada.say("a b c", max_tokens=200)
    answer = begun.json["messages"][-1]["answer"]
    assert world.ada.say("too soon", begun.json).json["error"]["reason"] == "STILL_ANSWERING"
    assert world.ada.post("stop", answer=answer).status == 200
    events = world.ada.follow(answer)
    stored = world.ada.get(f"conversations/{begun.json['id']}").json["messages"][-1]
    assert stored["text"] == "".join(each.get("text", "") for each in events)
    assert (stored["state"], stored["finished"]) in [("stopped", "cancelled"), ("whole", "stop"), ("whole", "length")]


def test_what_is_deleted_is_gone_with_what_was_journaled(world: World) -> None:
    talk = world.ada.answered(world.ada.say("a b"))
    answer = talk["messages"][-1]["answer"]
    running = world.ada.say("c", talk, max_tokens=200).json
    assert world.ada.post("delete", conversation=running["id"]).status == 200
    assert world.ada.get(f"conversations/{talk['id']}").status == 404
    assert talk["id"] not in [each["id"] for each in world.ada.get("conversations").json["conversations"]]
    assert world.ada.post("verify", answer=answer).json["error"]["reason"] == "REQUEST_GONE"
    assert world.ada.get(f"why/{answer.removeprefix('answers/')}").json["temperature"] is None


def test_the_conversations_of_an_erased_user_are_deleted(world: World) -> None:
    with world.served.client() as operator:
        person = user(operator, "grace")
        caller = Caller(world.served, person)
        talk = caller.answered(caller.say("a b"))
        request = VerifyAnswerRequest(name=talk["messages"][-1]["answer"])
        assert operator.chat.VerifyAnswer(request).equal
        refused = caller.answered(caller.say("nightfall"))["messages"][-1]["answer"]
        assert caller.post("report", answer=refused, words="mine").json == {"new": True}
        operator.access.EraseUser(EraseUserRequest(name=person))

        def is_gone() -> bool:
            try:
                operator.chat.VerifyAnswer(request)
            except Refused as error:
                return error.reason == "REQUEST_GONE"
            return False

        await_that(is_gone, "the request of the answer to be deleted", START_SECONDS)
    assert person not in {each.user for each in reports_of(world)}
    assert caller.get(f"conversations/{talk['id']}").status == 401


def test_a_model_that_does_not_serve_is_named(world: World) -> None:
    found = world.ada.say("a", model="other")
    assert (found.status, "'other' does not serve" in found.json["error"]["message"]) == (503, True)


def test_old_turns_leave_and_the_answer_says_how_many(world: World) -> None:
    talk = world.ada.answered(world.ada.say("a " * 40, max_tokens=1))
    while not talk["messages"][-1]["unsent"]:
        assert len(talk["messages"]) < 40, "all of them fit"
        body = {"conversation": talk["id"], "revision": talk["revision"], "parent": talk["messages"][-1]["id"]}
        counted = world.ada.post("count", **body, text="b " * 40, settings={"model": "toy"}).json
        assert counted["tokens"] <= counted["length"] * 3 / 4
        assert 0 < counted["typed"] < counted["tokens"]
        talk = world.ada.answered(world.ada.say("b " * 40, talk, max_tokens=1))
    refused = world.ada.say("c " * 300).json["error"]
    assert refused["message"].startswith("text: expected fewer than")
    assert (refused["field"], refused["expected"]) == ("text", "fewer than 256, the context of the model")


def test_a_turn_that_was_refused_stays_visible_and_later_turns_are_answered(world: World) -> None:
    talk = world.ada.answered(world.ada.say("a b"))
    refused = world.ada.answered(world.ada.say("nightfall", talk))
    assert [each["finished"] == "content_filter" for each in refused["messages"]] == [False, False, False, True]
    later = world.ada.answered(world.ada.say("c", refused))
    assert [each["text"] for each in later["messages"]][2] == "nightfall"
    assert later["messages"][-1]["finished"] in ("stop", "length")
    assert world.ada.post("verify", answer=later["messages"][-1]["answer"]).json["equal"]
    again = world.ada.answered(
        world.ada.say(None, refused | {"revision": later["revision"]}, refused["messages"][2]["id"])
    )
    assert again["messages"][-1]["finished"] == "content_filter"


def reports_of(world: World) -> list[Any]:
    with world.served.client() as operator:
        return [*operator.chat.ListReports(ListReportsRequest(deployment=NAME)).reports]


def test_a_wrong_refusal_is_reported_once_and_listed_for_operators(world: World) -> None:
    before = reports_of(world)
    talk = world.ada.answered(world.ada.say("nightfall, and nightfall"))
    answer = talk["messages"][-1]["answer"]
    with world.served.client() as operator:
        recorded = operator.chat.GetAnswer(GetRequest(name=answer))
    assert world.ada.post("report", answer=answer, words="  it is the title of a story ").json == {"new": True}
    assert world.ada.post("report", answer=answer, words="again").json == {"new": False}
    found = [each for each in reports_of(world) if each not in before]
    assert [each.decision for each in found] == [*recorded.decisions]
    assert [each.number for each in found] == [*range(len(found))]
    assert {(each.words, each.user) for each in found} == {("it is the title of a story", world.people["ada"])}
    listed = tutti(world.served, "answers", "reports", "--deployment", "toy")
    assert [each["rule"] for each in listed[: len(found)]] == [each.rule for each in recorded.decisions]
    with world.served.client() as operator:
        assert operator.chat.GetDeployment(GetRequest(name=NAME)).reports == len(before) + len(found)
    with connect(world.served.data_dir.path, role=Role.ENGINEER) as engineer, pytest.raises(PermissionDenied):
        engineer.chat.ListReports(ListReportsRequest())


def test_a_report_that_cannot_be_stored_is_refused(world: World) -> None:
    before = reports_of(world)
    refused = world.ada.answered(world.ada.say("nightfall"))["messages"][-1]["answer"]
    whole = world.ada.answered(world.ada.say("a", max_tokens=1))["messages"][-1]["answer"]
    assert world.ada.post("report", answer=refused, words="a" * 501).json["error"]["message"].startswith("words")
    assert world.ada.post("report", answer=refused).status == 400
    assert world.ada.post("report", answer=refused, words="\ud800").status == 400
    assert world.ada.post("report", answer=whole, words="").json["error"]["reason"] == "NOT_REFUSED"
    for name in OTHERS:
        assert world.callers[name].post("report", answer=refused, words="").status == 404
    assert reports_of(world) == before
    assert world.ada.post("report", answer=refused, words="é" * 500).json == {"new": True}


def test_the_words_of_a_refusal_and_their_language_go_together(world: World) -> None:
    texts = {"en": "nightfall is the word", "de": "nightfall ist das Wort", "es": "es la nightfall y el"}
    for language, text in texts.items():
        message = world.ada.answered(world.ada.say(text))["messages"][-1]
        assert (message["finished"], message["language"]) == ("content_filter", language)
    assert world.ada.answered(world.ada.say("a", max_tokens=1))["messages"][-1]["language"] == ""


@pytest.mark.parametrize(
    "change",
    [
        {"text": ""},
        {"text": 5},
        {"text": "a" * (64 << 10) + "b"},
        {"text": "\ud800"},
        {"revision": "0"},
        {"revision": 0, "parent": "x"},
        {"conversation": "c"},
        {"settings": {"model": "toy", "top_k": 3}},
        {"settings": {"model": "toy", "temperature": 3}},
        {"settings": {"model": "toy", "max_tokens": "many"}},
        {"settings": {"model": "toy", "system": 5}},
        {"settings": {}},
        {"more": 1},
    ],
    ids=lambda each: f"{next(iter(each))} {str(each)[:60]}",
)
def test_a_bad_turn_is_refused_by_its_field_and_stored_nowhere(world: World, change: dict[str, Any]) -> None:
    before = world.ada.get("conversations").json
    body = {"conversation": str(uuid.uuid4()), "revision": 0, "parent": "", "text": "a", "settings": {"model": "toy"}}
    found = world.ada.post("say", **{**body, **change})
    assert (found.status, found.json["error"]["reason"]) == (400, "INVALID_FIELD")
    assert world.ada.get("conversations").json == before


def test_an_answer_that_loses_its_replicas_ends_with_an_error_and_never_as_if_it_were_whole(world: World) -> None:
    replicas = [each for each in psutil.Process().children() if "tutti.chat.replica" in " ".join(each.cmdline())]
    for each in replicas:
        each.suspend()
    try:
        begun = world.ada.say("a b c").json
        events = world.ada.follow(begun["messages"][-1]["answer"])
    finally:
        for each in replicas:
            each.resume()
    assert events == [{"ended": True}]
    stored = world.ada.get(f"conversations/{begun['id']}").json["messages"][-1]
    assert (stored["state"], stored["finished"], stored["text"]) == ("failed", "cancelled", "")
    assert "no replica" in stored["reason"]
