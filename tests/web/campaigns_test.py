"""A campaign from the command line: created, annotators invited, closed, its preferences exported."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from google.protobuf.timestamp_pb2 import Timestamp
from pyarrow import json as arrow

from tests.web.annotation_test import Annotator
from tests.web.commands_test import followed, tutti
from tests.web.hosted import Hosted, Visitor, hosted
from tests.web.sessions_test import form_token
from tutti.annotation.conftest import GUIDELINE, judgement_id, lines
from tutti.annotation.service import build as build_annotation
from tutti.backbone.connect import open_blobs
from tutti.chassis.demo_test import eventually
from tutti.chassis.work.work import publish
from tutti.cli.app import build
from tutti.contracts.access.v1 import CreateUserRequest, DisableUserRequest, EraseUserRequest
from tutti.contracts.annotation.v1 import CreatePreferencesRequest, PreferencesSpec
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.evaluation.v1 import (
    STANDING_STALE,
    ComparedReward,
    Comparison,
    ComparisonSpec,
    Evidence,
    JudgedSet,
)
from tutti.contracts.options.v1 import ROLE_ANNOTATOR, ROLE_ENGINEER
from tutti.corpus.conversations.conversations import Conversation, Message, Role, from_lines, prompt_digest
from tutti.evaluation.comparing import Differing, paired
from tutti.evaluation.comparing_test import answers, best, worse
from tutti.evaluation.comparison_test import stored
from tutti.evaluation.service import build as build_evaluation
from tutti.records.manifest import Kind, Manifest


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(
        tmp_path_factory.mktemp("platform"),
        "annotation.undo_seconds=0.2",
        "annotation.look_seconds=0.1",
        builds={"annotation": build_annotation, "evaluation": build_evaluation},
    ) as found:
        yield found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "pairs.jsonl").write_text(lines(4))
    (folder / "guideline.md").write_text(GUIDELINE)
    return folder


def created(served: Hosted, files: Path, name: str, *more: str) -> Any:
    given = [
        "--pairs",
        str(files / "pairs.jsonl"),
        "--guideline",
        str(files / "guideline.md"),
        "--axis",
        "helpful=Which?",
    ]
    made = tutti(served, "campaigns", "create", name, *given, *more)
    eventually(lambda: tutti(served, "campaigns", "show", name)["state"] in ("qualifying", "open"))
    return made


def said(served: Hosted, *arguments: str) -> str:
    """What the command says beside its data."""
    command = [*arguments, "--data-dir", str(served.data_dir.path)]
    return CliRunner().invoke(build(), command, standalone_mode=False, catch_exceptions=False).stderr


def refused(served: Hosted, *arguments: str) -> Exception:
    command = [*arguments, "--data-dir", str(served.data_dir.path)]
    found = CliRunner().invoke(build(), command, standalone_mode=False).exception
    assert isinstance(found, Exception)
    return found


def test_invitations_that_cannot_all_be_made_are_not_made(served: Hosted, files: Path) -> None:
    created(served, files, "careful")
    with served.client() as client:

        def user(name: str, tenant: str = "") -> str:
            made = CreateUserRequest(display_name=name, roles=[ROLE_ANNOTATOR], tenant=tenant)
            return client.access.CreateUser(made).user.name

        eve, bob, gone = user("Eve", "tenants/other"), user("Bob"), user("Gone")
        client.access.DisableUser(DisableUserRequest(name=gone))
    before = len(tutti(served, "users", "ls"))
    for wrong, words in ((eve, "tenants/other"), (gone, "disabled"), ("users/nobody", "users/nobody")):
        assert words in str(refused(served, "campaigns", "invite", "careful", "Ada", bob, wrong))
    tutti(served, "campaigns", "cancel", "careful")
    assert "cancelled" in str(refused(served, "campaigns", "invite", "careful", "Ada"))
    assert len(tutti(served, "users", "ls")) == before
    assert tutti(served, "annotators", "ls", "careful") == []


@pytest.mark.parametrize("hours", ["nan", "inf", "-1", "9000"])
def test_a_deadline_is_a_number_of_hours(served: Hosted, files: Path, hours: str) -> None:
    given = ["--pairs", str(files / "pairs.jsonl"), "--guideline", str(files / "guideline.md"), "--axis", "a"]
    refusal = refused(served, "campaigns", "create", "late", *given, "--deadline-hours", hours)
    assert "--deadline-hours" in refusal.format_message()  # type: ignore[attr-defined]


def test_a_campaign_is_run_from_the_command_line(served: Hosted, files: Path) -> None:
    made = created(served, files, "trial", "--qualification", "0", "0", "--controls", "0")
    assert made["spec"]["axes"] == [{"name": "helpful", "rule": "Which?"}]
    (invited,) = tutti(served, "campaigns", "invite", "trial", "Ada Example")
    ada = Annotator(followed(served, invited["url"]))
    ada.campaign = "trial"
    assert invited["url"].endswith("?next=/annotation/trial")
    ada.state()
    receipt = ada.judge(*ada.lease())
    assert receipt.json["done"] == 4
    eventually(lambda: tutti(served, "campaigns", "show", "trial")["state"] == "published")
    (row,) = tutti(served, "annotators", "ls", "trial")
    assert (row["key"], row["judged"], row["state"]) == (invited["annotator"], 4, "active")


def test_links_that_open_on_this_machine_only_say_so(served: Hosted, files: Path) -> None:
    created(served, files, "near")
    assert "set web.public_url" in said(served, "campaigns", "invite", "near", "Bob Example")


def fitted(served: Hosted, name: str) -> None:
    """Fit preferences with the name of a published campaign to it."""
    campaign = tutti(served, "campaigns", "show", name)
    spec = PreferencesSpec(
        campaign=campaign["name"],
        manifest_key=campaign["result"]["manifest_key"],
        content_digest=campaign["result"]["content_digest"],
    )
    with served.client() as client:
        client.annotation.CreatePreferences(CreatePreferencesRequest(name=f"preferences/{name}", spec=spec))
    eventually(lambda: tutti(served, "preferences", "show", name)["state"] == "done")


def test_preferences_are_exported_for_others(served: Hosted, files: Path, tmp_path: Path) -> None:
    fitted(served, "trial")
    written = tutti(served, "preferences", "export", "trial", "--to", str(tmp_path / "own.jsonl"))
    assert written["pairs"] == 4
    line = json.loads((tmp_path / "own.jsonl").read_text().splitlines()[0])
    assert sorted(line) == ["answers", "first", "judged", "prompt", "weight"]
    tutti(served, "preferences", "export", "trial", "--format", "trl", "--to", str(tmp_path / "trl.jsonl"))
    line = json.loads((tmp_path / "trl.jsonl").read_text().splitlines()[0])
    assert line["prompt"][0]["role"] == "user"
    assert line["chosen"][0]["role"] == line["rejected"][0]["role"] == "assistant"
    tutti(served, "preferences", "export", "trial", "--format", "hf", "--to", str(tmp_path / "folder"))
    _, card, _ = (tmp_path / "folder" / "README.md").read_text().split("---\n")
    (split,) = yaml.safe_load(card)["configs"][0]["data_files"]
    assert split["split"] == "train"
    table = arrow.read_json(tmp_path / "folder" / split["path"])  # type: ignore[attr-defined]
    assert table.to_pylist() == [json.loads(each) for each in (tmp_path / "trl.jsonl").read_text().splitlines()]
    (row,) = tutti(served, "annotators", "ls", "trial")
    assert row["sharpness"]["error"] > 0
    again = refused(served, "preferences", "export", "trial", "--to", str(tmp_path / "own.jsonl"))
    assert "choose another file" in str(again)
    export = [
        "preferences",
        "export",
        "trial",
        "--format",
        "trl",
        "--margin",
        "0.49",
        "--to",
        str(tmp_path / "ties.jsonl"),
    ]
    assert "ties.jsonl is empty: every pair is within 0.49 of a tie" in said(served, *export)


def test_an_export_says_that_an_annotator_was_retracted_since(served: Hosted, tmp_path: Path) -> None:
    (row,) = tutti(served, "annotators", "ls", "trial")
    export = ["preferences", "export", "trial", "--to"]
    assert said(served, *export, str(tmp_path / "before.jsonl")) == ""
    before = tutti(served, "campaigns", "show", "trial")["result"]
    tutti(served, "annotators", "retract", "trial", row["key"], "--reason", "on request")
    eventually(lambda: tutti(served, "campaigns", "show", "trial")["result"] != before)
    words = said(served, *export, str(tmp_path / "after.jsonl"))
    assert (
        f"campaigns/trial has other judgements since preferences/trial was fitted (published anew without {row['key']})"
        in words
    )


def test_it_is_paused_resumed_changed_and_closed(served: Hosted, files: Path) -> None:
    created(served, files, "second")
    assert tutti(served, "campaigns", "pause", "second")["state"] == "paused"
    assert tutti(served, "campaigns", "resume", "second")["state"] == "qualifying"
    (files / "other.md").write_text("Prefer the longer answer.")
    changed = tutti(served, "campaigns", "guideline", "second", str(files / "other.md"))
    assert changed["guideline"] != tutti(served, "campaigns", "show", "trial")["guideline"]
    assert tutti(served, "campaigns", "close", "second")["state"] in ("closed", "published")
    command = ["campaigns", "cancel", "second", "--data-dir", str(served.data_dir.path)]
    told = CliRunner().invoke(build(), command, standalone_mode=False, catch_exceptions=False).stdout
    assert told in [f"campaigns/second is {state}; nothing was changed\n" for state in ("closed", "published")]
    created(served, files, "third")
    assert tutti(served, "campaigns", "cancel", "third")["state"] == "cancelled"


def test_an_annotator_is_retracted_by_key(served: Hosted, files: Path) -> None:
    created(served, files, "fourth")
    (invited,) = tutti(served, "campaigns", "invite", "fourth", "Eve Example")
    found = tutti(served, "annotators", "retract", "fourth", invited["annotator"], "--reason", "on request")
    assert (found["state"], found["reason"]) == ("retracted", "on request")
    assert actions(served) == ["RetractAnnotator"]
    assert "fourth" in str(refused(served, "annotators", "retract", "fourth", "none", "--reason", "r"))


def test_the_weight_of_an_annotator_is_set_for_a_reason_and_audited(served: Hosted, files: Path) -> None:
    created(served, files, "weighed")
    (invited,) = tutti(served, "campaigns", "invite", "weighed", "Eve Example")
    weigh = ("annotators", "weight", "weighed", invited["annotator"], "--weight")
    assert "why the judgements have less weight" in str(refused(served, *weigh, "0.5"))
    assert tutti(served, *weigh, "0.5", "--reason", "asleep", "--dry-run")["set_weight"] == 0.5
    (row,) = tutti(served, "annotators", "ls", "weighed")
    assert (row["set_weight"], row["weight_reason"]) == (1.0, "")
    assert tutti(served, *weigh, "0.5", "--reason", "asleep")["set_weight"] == 0.5
    assert actions(served) == ["WeighAnnotator"]
    (row,) = tutti(served, "annotators", "ls", "weighed")
    assert (row["set_weight"], row["weight_reason"]) == (0.5, "asleep")
    assert "has no annotator none" in str(refused(served, "annotators", "weight", "weighed", "none", "--weight", "1"))


def actions(served: Hosted) -> list[str]:
    """The action of the newest record of the audit trail."""
    records = tutti(served, "audit", "--service", "annotation", "--limit", "1")
    return [each["action"].rpartition("/")[2] for each in records]


def flagged(served: Hosted, files: Path, campaign: str) -> tuple[Annotator, str]:
    """An annotator of a campaign who flagged a pair, and its id."""
    created(served, files, campaign, "--qualification", "0", "0", "--controls", "0")
    (invited,) = tutti(served, "campaigns", "invite", campaign, "Ada Example")
    ada = Annotator(followed(served, invited["url"]), campaign=campaign)
    ada.state()
    pair = ada.lease()[0]
    assert ada.judge(pair, kind="flagged", reason="broken", answers={}).json["refused"] == []
    return ada, pair["id"]


def test_a_pair_is_left_out_and_counts_again(served: Hosted, files: Path) -> None:
    _, pair = flagged(served, files, "settled")
    settle = ("campaigns", "settle", "settled", pair)
    assert "why the pair is left out" in str(refused(served, *settle, "--leave-out"))
    tutti(served, *settle, "--leave-out", "--reason", "broken", "--dry-run")
    assert tutti(served, "campaigns", "show", "settled")["settled_out"] == 0
    assert tutti(served, *settle, "--leave-out", "--reason", "broken")["verdict"] == "left_out"
    assert tutti(served, "campaigns", "show", "settled")["settled_out"] == 1
    assert tutti(served, *settle, "--keep")["verdict"] == "kept"
    assert tutti(served, "campaigns", "show", "settled")["settled_out"] == 0
    records = tutti(served, "audit", "--service", "annotation", "--limit", "2")
    assert {each["action"].rpartition("/")[2] for each in records} == {"SettlePair"}


def test_the_form_that_settles_a_pair_is_for_owners_and_checked(served: Hosted, files: Path) -> None:
    ada, pair = flagged(served, files, "forms")
    path = "/annotation/forms/disputed"
    owner = Visitor(served.url)
    owner.log_in(served.link())
    token = form_token(owner.get(path).text)
    verdict = {"form_token": token, "pair": pair, "verdict": "left_out", "reason": "broken"}
    assert ada.visitor.post(path, verdict | {"form_token": ada.token}).status == 403
    assert owner.post(path, verdict | {"form_token": ""}).status == 403
    assert owner.post(path, verdict | {"pair": "0" * 16}).status == 404
    for change in ({"pair": "a\0b"}, {"reason": ""}, {"reason": "x" * 501}, {"verdict": "follows"}, {"verdict": ""}):
        assert owner.post(path, verdict | change).status == 400, change
    assert tutti(served, "campaigns", "show", "forms")["settled_out"] == 0
    assert owner.post(path, verdict).status == 303
    assert tutti(served, "campaigns", "show", "forms")["settled_out"] == 1
    answer = {"form_token": token, "id": "none", "text": "Yes."}
    assert owner.post("/annotation/forms/messages", answer).status == 404
    (record, *_) = tutti(served, "audit", "--service", "annotation", "--limit", "1")
    assert (record["resource"], record["outcome"], record["address"]) == ("campaigns/forms", "changed", "127.0.0.1")
    (refusal, *_) = tutti(served, "audit", "--service", "access", "--limit", "1")
    assert (refusal["action"], refusal["user"]) == ("POST /annotation/forms/messages", "users/operator")
    assert (refusal["outcome"], refusal["code"], refusal["reason"]) == ("refused", "NOT_FOUND", "NOT_FOUND")
    assert refusal["address"] == "127.0.0.1"


def test_a_version_of_the_guideline_is_retracted_by_the_beginning_of_its_name(served: Hosted, files: Path) -> None:
    created(served, files, "versions")
    (files / "better.md").write_text("# Better\n\nPrefer the true answer.")
    tutti(served, "campaigns", "guideline", "versions", str(files / "better.md"))
    old, new = tutti(served, "campaigns", "guidelines", "versions")
    assert (old["current"], new["current"], new["title"]) == (False, True, "# Better")
    retract = ("campaigns", "retract-guideline", "versions")
    assert "2 versions" in str(refused(served, *retract, "blake3:", "--reason", "wrong"))
    assert "replace the guideline first" in str(refused(served, *retract, new["version"], "--reason", "wrong"))
    assert "does not exist" in str(refused(served, *retract, "none", "--reason", "wrong"))
    assert tutti(served, *retract, old["version"][:15], "--reason", "wrong", "--dry-run")["retracted"] == ""
    assert tutti(served, *retract, old["version"][:15], "--reason", "wrong")["retracted"] == "wrong"


def test_a_message_is_listed_and_answered(served: Hosted, files: Path) -> None:
    ada, _ = flagged(served, files, "asked")
    message = judgement_id("asked")
    sent = {"campaign": "asked", "id": message, "words": "May it be long?"}
    assert ada.send("/annotation/api/messages", sent).status == 200
    (row,) = tutti(served, "annotators", "messages", "asked")
    assert (row["id"], row["text"], row["answer"]) == (message, "May it be long?", "")
    assert tutti(served, "annotators", "answer", "asked", message, "It may.")["answer"] == "It may."
    assert actions(served) == ["AnswerMessage"]
    assert ada.state().json["messages"] == [{"id": message, "words": "May it be long?", "answer": "It may."}]


def test_judgements_that_exist_are_imported_once(served: Hosted, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    records = [{"prompt": f"why {number}?", "chosen": "so", "rejected": "no"} for number in range(4)]
    labels.write_text("".join(json.dumps(each) + "\n" for each in records) + "{}\n")
    command = ("campaigns", "import", "imported", str(labels))
    assert tutti(served, *command, "--dry-run")[0]["spec"]["crowd"] == "imported"
    assert "imported" not in {each["name"].rpartition("/")[2] for each in tutti(served, "campaigns", "ls")}
    assert "line 5: nothing; expected" in said(served, *command)
    (again,) = tutti(served, *command)
    eventually(lambda: tutti(served, "campaigns", "show", "imported")["state"] == "published")
    found = tutti(served, "campaigns", "show", "imported")
    assert (again["name"], found["pairs"], found["judgements"]) == ("campaigns/imported", 4, 4)
    assert "nobody can be invited" in str(refused(served, "campaigns", "invite", "imported", "Ada"))
    labels.write_text("{}\n")
    assert "no judgement of a pair" in str(refused(served, *command))


def test_a_leaning_to_format_is_listed_and_on_the_page_of_the_campaign(served: Hosted, tmp_path: Path) -> None:
    labels = tmp_path / "formats.jsonl"
    answers, records = ["Yes. It is so.", "- **Yes**.\n- It is so."], []
    for number in range(6):
        records += [
            {"prompt": f"why {number}?", "answers": answers, "score": 2, "annotator": annotator} for annotator in "ab"
        ]
    labels.write_text("".join(json.dumps(each) + "\n" for each in records))
    tutti(served, "campaigns", "import", "formats", str(labels))
    eventually(lambda: tutti(served, "campaigns", "show", "formats")["state"] == "published")
    owner = Visitor(served.url)
    owner.log_in(served.link())
    assert "no answers differ" not in owner.get("/annotation/formats/overview").text
    fitted(served, "formats")
    for row in tutti(served, "annotators", "ls", "formats"):
        assert row["format"]["value"] > 0
        assert row["restyled"] == 0
    page = owner.get("/annotation/formats/overview").text
    assert page.count("not enough controls: 0 of 5") == 2
    (first, _) = json.loads(owner.get("/annotation/formats/overview.json").text)["annotators"]
    assert first["format"]["low"] < first["format"]["value"] < first["format"]["high"]
    assert f"{first['format']['value']:.2f}<br>" in page


def test_the_name_of_an_annotator_who_was_erased_is_gone_from_the_page(served: Hosted, files: Path) -> None:
    created(served, files, "erased", "--qualification", "0", "0")
    (invited,) = tutti(served, "campaigns", "invite", "erased", "Eve Example")
    owner = Visitor(served.url)
    owner.log_in(served.link())
    assert "Eve Example" in owner.get("/annotation/erased/overview").text
    with served.client() as client:
        client.access.EraseUser(EraseUserRequest(name=invited["user"]))
    eventually(lambda: "Eve Example" not in owner.get("/annotation/erased/overview").text)


def test_an_open_campaign_has_live_estimates_on_its_page_and_in_the_list(served: Hosted, files: Path) -> None:
    created(served, files, "live", "--qualification", "0", "0", "--controls", "0", "--least", "2")
    (invited,) = tutti(served, "campaigns", "invite", "live", "Ada Example")
    owner = Visitor(served.url)
    owner.log_in(served.link())
    assert "Not identified: no judgement was fitted yet." in owner.get("/annotation/live/overview").text
    ada = Annotator(followed(served, invited["url"]), campaign="live")
    ada.state()
    assert ada.judge(*ada.lease()).json["done"] == 4
    words = "live estimates, not published, fitted to 4 judgements"
    eventually(lambda: words.capitalize() in owner.get("/annotation/live/overview").text)
    page = owner.get("/annotation/live/overview").text
    assert "Not identified: reliability: no pair was judged by two annotators" in page
    assert page.count("not enough controls: 0 of 10") == 2
    view = json.loads(owner.get("/annotation/live/overview.json").text)
    assert view["annotators"][0]["name"] == "Ada Example"
    assert "Ada Example" in page
    (row,) = tutti(served, "annotators", "ls", "live")
    assert view["annotators"][0]["sharpness"]["value"] == row["sharpness"]["value"] > 0
    assert words in said(served, "annotators", "ls", "live")
    assert tutti(served, "campaigns", "show", "live")["state"] == "open"


def told_apart(asked: str) -> str:
    return f"<script>alert(1)</script> {asked}"


def plant_comparison(
    served: Hosted, name: str, write: Callable[[str], str], ended_at: int, spec: ComparisonSpec, **made: Any
) -> None:
    """A stale comparison whose reward model expects the answers that `write` gives to win, which they did not."""
    pairs = paired(answers(worse, 4), answers(write, 4))
    apart = [
        Differing(prompt_digest(each.prompt), each.number, 0.9, 0.1 * place, 5) for place, each in enumerate(pairs)
    ]
    with contextlib.closing(open_blobs(served.data_dir.blobs_url)) as blobs:
        spec.baseline.CopyFrom(stored(blobs, "baseline", worse, 4))
        spec.candidate.CopyFrom(stored(blobs, name, write, 4))
        manifest = Manifest(Kind.COMPARISON, {"differing": [each.to_json() for each in apart]}, (), "a test")
        result = publish(blobs, "evaluation", manifest, data_bytes=0)
    done = Comparison(name=f"comparisons/{name}", spec=spec, state=STATE_DONE, standing=STANDING_STALE, result=result)
    done.MergeFrom(Comparison(ended_at=Timestamp(seconds=ended_at), **made))
    served.plant("evaluation", done)


def test_pairs_on_which_a_reward_model_differs_are_shown_to_owners_and_settled(served: Hosted, files: Path) -> None:
    texts = [(one.prompt[0].content, one.text, told_apart(one.prompt[0].content)) for one in answers(worse, 4)]
    records = [{"prompt": [{"role": "user", "content": asked}], "answers": both} for asked, *both in texts]
    (files / "apart.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    created(served, files, "apart", "--pairs", str(files / "apart.jsonl"), "--qualification", "0", "0")
    reward, judged = ComparedReward(checkpoint="checkpoints/r/0/1"), JudgedSet(campaign="campaigns/apart")
    learned = [Evidence(resource="campaigns/apart")]
    plant_comparison(served, "own", told_apart, 2, ComparisonSpec(reward=reward, judged=judged))
    plant_comparison(served, "learned", best, 1, ComparisonSpec(reward=reward), evidence=learned)
    plant_comparison(served, "unrelated", best, 3, ComparisonSpec(reward=reward))
    plant_comparison(served, "without", best, 4, ComparisonSpec(judged=judged))
    lost = Comparison(name="comparisons/lost", state=STATE_DONE, standing=STANDING_STALE)
    lost.spec.MergeFrom(ComparisonSpec(reward=reward, judged=judged))
    lost.result.manifest_key = "evaluation/manifests/lost.json"
    served.plant("evaluation", lost)
    owner, path = Visitor(served.url), "/annotation/apart/differing"
    owner.log_in(served.link())
    page = owner.get(path).text
    assert "A comparison judged by this campaign, which is stale." in page
    assert "Not everything is shown: comparisons/lost: " in page
    assert (
        "The reward model expects the second answer to win in 90%; it won 0.0% (0.0% to 43.4%, n = 5) of judgements"
        in page
    )
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert" not in page
    own, other = json.loads(owner.get(f"{path}.json").text)["comparisons"]
    assert (own["name"], other["name"]) == ("comparisons/own", "comparisons/learned")
    assert {each["texts"]["answers"][1] for each in own["pairs"]} == {each[2] for each in texts}
    assert {bool(each["id"]) for each in own["pairs"]} == {True}
    assert {each["id"] for each in other["pairs"]} == {""}
    first = own["pairs"][0]["id"]
    settle = {"form_token": form_token(page), "pair": first, "verdict": "left_out", "reason": "broken"}
    assert owner.post("/annotation/apart/disputed", settle).status == 303
    (own, _) = json.loads(owner.get(f"{path}.json").text)["comparisons"]
    assert (own["pairs"][0]["verdict"], own["pairs"][0]["decision"]) == ("left_out", "broken")
    (invited,) = tutti(served, "campaigns", "invite", "apart", "Ada Example")
    assert followed(served, invited["url"]).get(path).status == 403
    with served.client() as client:
        made = CreateUserRequest(display_name="Eve", roles=[ROLE_ENGINEER], tenant="tenants/other")
        eve = Visitor(served.url)
        eve.log_in(served.link(client.access.CreateUser(made).user.name))
    assert eve.get(path).status == 404


def test_demonstrations_are_listed_reviewed_published_and_exported(served: Hosted, files: Path, tmp_path: Path) -> None:
    created(served, files, "fifth", "--qualification", "0", "0", "--controls", "0")
    (invited,) = tutti(served, "campaigns", "invite", "fifth", "Eve Example")
    eve = Annotator(followed(served, invited["url"]))
    eve.campaign = "fifth"
    eve.state()
    first, second = eve.lease()[:2]
    for pair, words in ((first, "the best answer"), (second, "nonsense")):
        assert eve.judge(pair, demonstration=words).json["refused"] == []
    rows = tutti(served, "demonstrations", "written", "fifth")
    ids = {row["messages"][-1]["content"]: row["id"] for row in rows}
    assert sorted(ids) == ["nonsense", "the best answer"]
    wordless = refused(served, "demonstrations", "reject", "fifth", ids["nonsense"], "--reason", "")
    assert "why it is rejected, in words" in str(wordless)
    assert "no answer of campaigns/fifth is accepted" in str(refused(served, "demonstrations", "publish", "fifth"))
    assert tutti(served, "demonstrations", "ls") == []
    tutti(served, "demonstrations", "accept", "fifth", ids["the best answer"])
    (row,) = tutti(served, "demonstrations", "reject", "fifth", ids["nonsense"], "--reason", "it is nonsense")
    assert (row["state"], row["reviewer"]) == ("rejected", "users/operator")
    path = tmp_path / "demonstrations.jsonl"
    published = tutti(served, "demonstrations", "publish", "fifth")
    assert int(published["conversations"]) == 1
    assert tutti(served, "demonstrations", "publish", "fifth") == published
    name = published["demonstrations"]
    assert [each["name"] for each in tutti(served, "demonstrations", "ls")] == [name]
    assert int(tutti(served, "demonstrations", "export", name, "--to", str(path))["conversations"]) == 1
    (conversation,) = from_lines(Conversation, path.read_bytes())
    assert conversation.messages[-1] == Message(Role.ASSISTANT, "the best answer")
    assert "choose another file" in str(refused(served, "demonstrations", "export", name, "--to", str(path)))


def test_what_cannot_be_created_is_told(served: Hosted, files: Path) -> None:
    given = ["campaigns", "create", "bad", "--guideline", str(files / "guideline.md"), "--axis", "helpful"]
    assert "either --sample, or --pairs" in str(refused(served, *given))
    (files / "empty.jsonl").write_text("\n")
    assert "empty.jsonl is empty" in str(refused(served, *given, "--pairs", str(files / "empty.jsonl")))
    assert "does not exist" in str(refused(served, *given, "--pairs", str(files / "none.jsonl")))
