"""The calls of the annotation page over HTTP: who may call, what is refused, what nobody learns."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.web.hosted import Answer, Hosted, Visitor, hosted
from tutti.annotation.campaigns.crowds_test import crowd, published
from tutti.annotation.conftest import judgement_id, spec
from tutti.annotation.service import build
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.errors import Refused
from tutti.chassis.identity.principal import DEFAULT_TENANT
from tutti.chassis.work.work import publish, put_named
from tutti.contracts.access.v1 import CreateUserRequest
from tutti.contracts.admin.v1 import ListAuditRecordsRequest
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_OPEN,
    CAMPAIGN_STATE_PUBLISHED,
    CAMPAIGN_STATE_QUALIFYING,
    AnswerSource,
    Campaign,
    CampaignSpec,
    CreateCampaignRequest,
    InviteAnnotatorRequest,
    Overlap,
    Preferences,
    Qualification,
)
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.options.v1 import ROLE_ANNOTATOR
from tutti.corpus.conversations.conversations import Answer as SampledAnswer
from tutti.corpus.conversations.conversations import Message, Role, to_lines
from tutti.corpus.conversations.conversationset import Lines
from tutti.inference.sampling import Sampling
from tutti.judgements.formats import differ_in_format
from tutti.pipeline.service import build as build_pipeline
from tutti.records.canonical import bytes_digest
from tutti.sampling.results import answers_manifest
from tutti.sampling.service import build as build_sampling
from tutti.web.pages import Api, Call, Follow, Post, Site
from tutti.web.simulators import SCHEME, Credentials
from tutti.web.tokens import PLATFORM, form_token

LEASES, JUDGEMENTS = "/annotation/api/leases", "/annotation/api/judgements"
WITHDRAW = "/annotation/api/withdraw"
CAMPAIGN = "a"


@dataclass
class Annotator:
    """A browser with the annotator's page. `token` is the form token that the last answer had."""

    visitor: Visitor
    token: str = ""
    campaign: str = CAMPAIGN

    def state(self) -> Answer:
        found = self.visitor.get(f"/annotation/{self.campaign}/state.json")
        self.token = found.headers.get("x-form-token", self.token)
        return found

    def send(self, path: str, body: object, **headers: str) -> Answer:
        given = {
            "sec-fetch-site": "same-origin",
            "content-type": "application/json",
            "x-form-token": self.token,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        text = body if isinstance(body, str) else json.dumps(body)
        return self.visitor.send("POST", path, text, given)

    def lease(self, count: int = 8) -> list[Any]:
        return list(self.send(LEASES, {"campaign": self.campaign, "count": count}).json["pairs"])

    def judge(self, *pairs: Mapping[str, Any], score: object = 1, guideline: str = "", **more: object) -> Answer:
        guideline = guideline or self.state().json["guideline"]["version"]
        said = [
            {
                "id": judgement_id(pair["id"], score),
                "pair": pair["id"],
                "guideline": guideline,
                "answers": {"helpful": score},
                "kind": "judged",
                "shown_ms": 900,
                **more,
            }
            for pair in pairs
        ]
        return self.send(JUDGEMENTS, {"campaign": self.campaign, "judgements": said})


def opened(served: Hosted, given: CampaignSpec, campaign: str = CAMPAIGN, *, until: int | None = None) -> Campaign:
    """Create a campaign, and wait for a state: by default, until its pairs are made."""
    states = (CAMPAIGN_STATE_QUALIFYING, CAMPAIGN_STATE_OPEN) if until is None else (until,)
    name = f"campaigns/{campaign}"
    with served.client() as client:
        client.annotation.CreateCampaign(CreateCampaignRequest(name=name, spec=given))
        for found in client.watch(name):
            if isinstance(found, Campaign) and found.state in states:
                return found
    raise AssertionError(f"{name} was not watched until the end")


def invited(served: Hosted, key: str) -> Annotator:
    """An annotator who has opened an invitation link."""
    with served.client() as client:
        user = client.access.CreateUser(CreateUserRequest(display_name=key, roles=[ROLE_ANNOTATOR])).user.name
        client.annotation.InviteAnnotator(InviteAnnotatorRequest(campaign=f"campaigns/{CAMPAIGN}", user=user, key=key))
    visitor = Visitor(served.url)
    answer = visitor.post("/login", {"token": served.link(user), "next": f"/annotation/{CAMPAIGN}"})
    assert answer.headers["location"] == f"/annotation/{CAMPAIGN}"
    found = Annotator(visitor)
    assert found.state().status == 200
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    builds = {"annotation": build, "pipeline": build_pipeline, "sampling": build_sampling}
    with hosted(tmp_path_factory.mktemp("platform"), builds=builds) as found:
        opened(found, spec(pairs=30, overlap=Overlap(least=1, most=1)))
        yield found


@pytest.fixture(scope="module")
def ada(served: Hosted) -> Annotator:
    return invited(served, "ada")


def test_a_damaged_campaign_is_left_out_of_the_list_and_named(served: Hosted, ada: Annotator) -> None:
    served.plant(
        "annotation", Campaign(name="campaigns/planted", tenant=DEFAULT_TENANT, state=CAMPAIGN_STATE_PUBLISHED)
    )
    owner = Visitor(served.url)
    owner.log_in(served.link())
    with served.damaged("annotation", f"campaigns/{CAMPAIGN}"):
        found, own = owner.get("/annotation.json").json, ada.visitor.get("/annotation.json").json
        assert ([each["campaign"] for each in found["owned"]], len(found["damaged"])) == (["planted"], 1)
        assert (own["campaigns"], len(own["damaged"])) == ([], 1)  # it is one to which she was invited
        assert f"campaigns/{CAMPAIGN}" in owner.get("/annotation").text
    served.plant("annotation", Preferences(name="preferences/planted", state=STATE_DONE))
    with served.damaged("annotation", "preferences/planted"):
        assert owner.get(f"/annotation/{CAMPAIGN}/overview").status == 200
    assert [each["campaign"] for each in ada.visitor.get("/annotation.json").json["campaigns"]] == [CAMPAIGN]


def test_an_invited_annotator_opens_one_link_and_judges(ada: Annotator) -> None:
    page = ada.visitor.get(f"/annotation/{CAMPAIGN}")
    assert page.status == 200
    assert f'data-campaign="{CAMPAIGN}"' in page.text
    assert ada.state().json["state"] == "active"
    pairs = ada.lease(2)
    assert sorted(pairs[0]) == ["answers", "cut", "id", "prompt"]
    receipt = ada.judge(*pairs)
    assert receipt.status == 200
    assert receipt.json["refused"] == []
    assert receipt.json["done"] == ada.state().json["done"]
    assert receipt.headers["cache-control"] == "no-store"


def test_a_call_without_the_token_of_its_session_is_forged(ada: Annotator, served: Hosted) -> None:
    body = {"campaign": CAMPAIGN, "count": 1}
    for headers in ({"x_form_token": ""}, {"x_form_token": invited(served, "mia").token}):
        refused = ada.send(LEASES, body, **headers)
        assert refused.status == 403
        assert refused.json["error"]["status"] == 403
    assert ada.send(LEASES, body, sec_fetch_site="cross-site").status == 403


def test_errors_are_json_with_a_reason(ada: Annotator, served: Hosted) -> None:
    ada.state()
    for body, headers, status, reason in (
        ("{", {}, 400, ""),
        ('{"campaign": NaN}', {}, 400, ""),
        ("[" * 5000, {}, 400, ""),
        ([], {}, 400, "INVALID_FIELD"),
        ({"campaign": CAMPAIGN, "count": 9}, {}, 400, "INVALID_FIELD"),
        ({"campaign": CAMPAIGN, "count": 1, "all": True}, {}, 400, "INVALID_FIELD"),
        ({"campaign": "another", "count": 1}, {}, 404, "NOT_FOUND"),
        ({"campaign": 3, "count": 1}, {}, 400, "INVALID_FIELD"),
        ({"campaign": CAMPAIGN}, {"content_type": "text/plain"}, 415, ""),
        ("x" * (65 << 10), {}, 413, ""),
    ):
        answer = ada.send(LEASES, body, **headers)
        assert (answer.status, answer.json["error"]["reason"]) == (status, reason), body
    many = {"campaign": CAMPAIGN, "judgements": [{}] * 51}
    assert ada.send(JUDGEMENTS, many).json["error"]["reason"] == "INVALID_FIELD"
    assert ada.visitor.get("/annotation/none/state.json").json["error"]["reason"] == "NOT_FOUND"
    signed_out = Annotator(Visitor(served.url)).send(LEASES, {"campaign": CAMPAIGN, "count": 1})
    assert (signed_out.status, signed_out.json["error"]["reason"]) == (401, "NO_SESSION")


@pytest.mark.parametrize("campaign", ["a\0b", "\ud800", "A b", "", "../a", "x" * 5000])
def test_what_is_no_id_of_a_campaign_is_refused(ada: Annotator, campaign: str) -> None:
    for path, more in ((LEASES, {"count": 1}), (JUDGEMENTS, {"judgements": [{}]}), (WITHDRAW, {})):
        assert ada.send(path, {"campaign": campaign, **more}).status == 400


def test_a_path_with_the_character_nul_is_no_page(ada: Annotator) -> None:
    for path in ("/annotation/a%00b", "/annotation/a%00b/state.json", "/annotation/a%00/overview"):
        assert ada.visitor.get(path).status == 404


def test_an_invitation_to_a_campaign_of_another_tenant_does_not_take_the_page_away(served: Hosted) -> None:
    with served.client() as client:
        created = CreateUserRequest(display_name="Eve", roles=[ROLE_ANNOTATOR], tenant="tenants/other")
        eve = client.access.CreateUser(created).user.name
        client.annotation.InviteAnnotator(InviteAnnotatorRequest(campaign=f"campaigns/{CAMPAIGN}", user=eve))
    visitor = Visitor(served.url)
    visitor.log_in(served.link(eve))
    assert visitor.get("/annotation").status == 200
    assert visitor.get(f"/annotation/{CAMPAIGN}").status == 404


def test_what_is_sent_several_times_at_once_has_one_effect(served: Hosted) -> None:
    zoe = invited(served, "zoe")
    with ThreadPoolExecutor(4) as pool:
        leased = list(pool.map(lambda _: [pair["id"] for pair in zoe.lease(2)], range(4)))
        (pair, _), guideline = zoe.lease(2), zoe.state().json["guideline"]["version"]
        said = list(pool.map(lambda _: zoe.judge(pair, guideline=guideline).json, range(4)))
    assert leased == [leased[0]] * 4
    assert {(tuple(each["accepted"]), each["done"]) for each in said} == {((judgement_id(pair["id"], 1),), 1)}


def test_the_desk_alone_may_start_its_worker(ada: Annotator) -> None:
    desk, every = ada.visitor.get("/annotation/a"), ada.visitor.get("/annotation/worker.js")
    assert "worker-src 'self'; trusted-types tutti-worker" in desk.headers["content-security-policy"]
    assert (every.status, every.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert "trusted-types 'none'" in every.headers["content-security-policy"]
    assert "worker-src" not in every.headers["content-security-policy"]


FOR_ANNOTATORS = {
    "/annotation",
    "/annotation/{campaign}",
    "/annotation/{campaign}/state.json",
    "/annotation/{campaign}/own.json",
    *(f"/annotation/api/{name}" for name in ("leases", "guideline", "judgements", "messages", "withdraw")),
}
OPEN_TO_OWNERS = {
    *("/runs", "/status", "/experiences"),
    *(f"/annotation/{{campaign}}/{name}" for name in ("overview", "preview", "disputed", "differing", "messages")),
}


def test_an_annotator_sees_no_page_of_engineers(served: Hosted, ada: Annotator) -> None:
    owner = Visitor(served.url)
    owner.log_in(served.link())
    pages = [each.service.pages for each in served.host.services]
    sites = [each for each in pages if isinstance(each, Site)]
    routes = [each for site in sites for each in site.routes if each.path not in FOR_ANNOTATORS]
    assert {each.path for each in routes} > OPEN_TO_OWNERS
    for route in routes:
        assert not isinstance(route, Call | Api | Follow), f"{route.path}: is this call for annotators?"
        path = re.sub(r"{\w+}", CAMPAIGN, route.path)
        if isinstance(route, Post):
            refused = [ada.visitor.post(path, {"form_token": ada.token})]
        else:
            ends = ("", ".json", ".events") if route.version else ("", ".json")
            refused = [ada.visitor.get(f"{path}{end}") for end in ends]
            assert route.path not in OPEN_TO_OWNERS or owner.get(path).status == 200, path
        for answer in refused:
            assert (answer.status, "this page is for engineer, operator" in answer.text) == (403, True), path
    home, mine = ada.visitor.get("/"), ada.visitor.get("/annotation")
    assert (home.status, home.headers["location"]) == (303, "/annotation")
    assert (mine.status, f'href="{DESK}"' in mine.text) == (200, True)
    assert not re.findall(rf'href="(?:/runs|/status|/experiences|{DESK}/)', mine.text)


def test_too_many_requests_are_told_when_to_come_again(served: Hosted) -> None:
    eager = invited(served, "eager")
    answers = [eager.send(LEASES, {"campaign": CAMPAIGN, "count": 1}) for _ in range(60)]
    refused = next(answer for answer in answers if answer.status != 200)
    assert (refused.status, refused.json["error"]["reason"]) == (429, "TOO_MANY_REQUESTS")
    assert int(refused.headers["retry-after"]) >= 0


def simulate(served: Hosted, user: str, path: str, **body: object) -> Any:
    """The answer to a call that a simulator of this platform sends over HTTP."""
    site = served.running("annotation").service.pages
    assert site.server.post is not None
    return site.simulate(user, path, body)


def test_a_simulated_crowd_judges_over_http_what_it_judges_without_a_server(served: Hosted, ada: Annotator) -> None:
    found = opened(served, crowd(judgements=12), "crowd", until=CAMPAIGN_STATE_PUBLISHED)
    assert found.result.content_digest == published(0, crowd(judgements=12), rates={}).result.content_digest
    refused = ada.send(LEASES, {"campaign": "crowd", "count": 1})
    assert (refused.status, refused.json["error"]["reason"]) == (404, "NOT_FOUND")
    owner = Visitor(served.url)
    owner.log_in(served.link())
    assert "judged by a simulated crowd" in owner.get("/annotation/crowd/overview").text
    assert "judged by people" in owner.get(f"/annotation/{CAMPAIGN}/overview").text


@pytest.mark.usefixtures("ada")
def test_simulators_are_refused_by_the_role_the_crowd_and_the_limits(served: Hosted) -> None:
    user = f"campaigns/{CAMPAIGN}/annotators/ada"
    for path, body, reason in (
        (LEASES, {"count": 1, "at": 0}, "NOT_SIMULATED"),
        (LEASES, {"count": 9, "at": 0}, "INVALID_FIELD"),
        (JUDGEMENTS, {"judgements": [{}] * 51}, "INVALID_FIELD"),
        (JUDGEMENTS, {"judgements": ["x" * (1 << 20)]}, "REFUSED"),
        (WITHDRAW, {}, "PERMISSION_DENIED"),
    ):
        with pytest.raises(Refused) as caught:
            simulate(served, user, path, campaign=CAMPAIGN, **body)
        assert caught.value.reason == reason


def test_nobody_outside_has_the_token_of_a_simulator(served: Hosted) -> None:
    user = f"campaigns/{CAMPAIGN}/annotators/ada"
    for token in (Credentials().token(user), f"{user} {'0' * 64}", user):
        headers = {"authorization": f"{SCHEME}{token}", "x_form_token": form_token(token)}
        refused = Annotator(Visitor(served.url)).send(LEASES, {"campaign": CAMPAIGN, "count": 1, "at": 0}, **headers)
        assert (refused.status, refused.json["error"]["reason"]) == (401, "UNAUTHENTICATED")
    with served.client() as client:
        newest = client.admin.ListAuditRecords(ListAuditRecordsRequest(service="access", limit=1)).records[0]
    assert (newest.action, newest.reason, newest.user) == (f"POST {LEASES}", "UNAUTHENTICATED", "")


def test_the_page_of_pairs_on_which_a_reward_model_differs_opens_without_evaluation(served: Hosted) -> None:
    owner = Visitor(served.url)
    owner.log_in(served.link())
    page = owner.get(f"/annotation/{CAMPAIGN}/differing")
    assert page.status == 200
    assert "Not everything is shown: evaluation did not answer: nobody serves" in page.text
    assert owner.get("/annotation/none/differing").status == 404


Written = Mapping[str, str]
"""The text that a checkpoint has written, by prompt."""


def sampled(blobs: EmbeddedBlobs, checkpoint: str, written: Written) -> AnswerSource:
    """A sample of a checkpoint in the store, as the service of samples publishes it."""
    lines = to_lines(
        SampledAnswer((Message(Role.USER, prompt),), number, text, tuple(map(len, (checkpoint, text))), "end")
        for number, (prompt, text) in enumerate(written.items())
    )
    key = put_named(blobs, "sampling/answers", lines, ".jsonl")
    manifest = answers_manifest(
        bytes_digest(checkpoint.encode()),
        bytes_digest(b"prompts"),
        "",
        Sampling(seed=len(checkpoint)),
        tokens=64,
        each=1,
        lines=Lines(key, bytes_digest(lines), len(lines), len(written)),
        producer="sampling",
    )
    made = publish(blobs, "sampling", manifest, data_bytes=len(lines))
    return AnswerSource(
        sample=f"samples/{checkpoint}", manifest_key=made.manifest_key, content_digest=made.content_digest
    )


def transcript(path: Path, checkpoints: Mapping[str, Written], **options: Any) -> list[tuple[object, ...]]:
    """Everything that an annotator is answered whose campaign compares these checkpoints, headers included."""
    with hosted(path, builds={"annotation": build}) as served:
        blobs = EmbeddedBlobs(served.data_dir.path / "blobs")
        sources = [sampled(blobs, name, written) for name, written in checkpoints.items()]
        made = opened(served, spec(pairs="", answers=sources, **options))
        assert made.pairs == len(next(iter(checkpoints.values())))
        found = invited(served, "ada")
        said: list[tuple[object, ...]] = []

        def note(answer: Answer) -> Answer:
            kept = {name: value for name, value in answer.headers.items() if name not in CHANGING}
            is_json = answer.headers["content-type"] == "application/json"
            drawn = (found.token, answer.headers[PLATFORM], r"users/\w+")
            body = answer.json if is_json else re.sub("|".join(drawn), "drawn", answer.text)
            said.append((answer.status, kept, body))
            return answer

        def look_around() -> None:
            note(found.state())
            for page in ("/annotation", "/annotation.json", DESK, f"{DESK}.json", f"{DESK}/own.json"):
                note(found.visitor.get(page))

        look_around()
        version = found.state().json["guideline"]["version"]
        note(found.send("/annotation/api/guideline", {"campaign": CAMPAIGN, "version": version}))
        while pairs := note(found.send(LEASES, {"campaign": CAMPAIGN, "count": 8})).json["pairs"]:
            note(found.judge(*pairs, score=0, comment="about equal"))
            note(found.judge(pairs[0], score=1))  # is refused
        asked = {"campaign": CAMPAIGN, "id": judgement_id("message"), "words": "Who wrote these?"}
        note(found.send("/annotation/api/messages", asked))
        look_around()
        note(found.send(WITHDRAW, {"campaign": CAMPAIGN}))
        note(found.send(LEASES, {"campaign": CAMPAIGN, "count": 8}))
        look_around()
        return said


DESK = f"/annotation/{CAMPAIGN}"
CHANGING = ("x-form-token", "date", "set-cookie", PLATFORM)
DRAWN = ("code", "completion_code", "user", "received_at")
"""Fields with the time and with what is drawn for an annotator."""


def test_two_checkpoints_that_are_swapped_give_equal_answers_but_for_the_texts(tmp_path: Path) -> None:
    """The texts of both are equally long, also in another format, and so are the answers with them."""
    options = {"controls": 0.3, "overlap": Overlap(least=1, most=1), "qualification": Qualification(pairs=2, right=2)}
    prompts = {number: f"question {number}" for number in range(10, 30)}
    base = {prompt: f"One **word** of {number} here." for number, prompt in prompts.items()}
    tuned = {prompt: f"Two `word` of `{number}` here." for number, prompt in prompts.items()}
    one = transcript(tmp_path / "one", {"quagga": base, "wardrobe": tuned}, **options)
    other = transcript(tmp_path / "other", {"wardrobe": tuned, "quagga": base}, **options)
    assert list(texts(one)) != list(texts(other))
    for said in (one, other):
        assert {each[0] for each in said} == {200}
        assert any(differ_in_format(*each) for each in texts(said)), "no control in two formats was given"
        assert not any(name in repr(said) for name in ("quagga", "wardrobe", "samples/"))
    assert blind(one) == blind(other)


def texts(said: object) -> Iterator[Sequence[str]]:
    """The answers of each pair that was given, the left one first."""
    if isinstance(said, dict) and "answers" in said:
        yield said["answers"]
    elif isinstance(said, dict | list | tuple):
        for each in said.values() if isinstance(said, dict) else said:
            yield from texts(each)


def blind(said: object) -> object:
    """What was answered, without the texts of answers, and without what is drawn."""
    if isinstance(said, dict):
        return {key: "" if key in ("answers", *DRAWN) else blind(value) for key, value in said.items()}
    return [blind(each) for each in said] if isinstance(said, list | tuple) else said
