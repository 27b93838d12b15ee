"""Campaigns of judgements that were made elsewhere: files in known layouts, published at once, retracted like any."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tutti.annotation.commands.importing import imported_spec
from tutti.annotation.commands.labels import labels_in
from tutti.annotation.conftest import Desks, spec
from tutti.annotation.service_test import preferences
from tutti.chassis.errors import InvalidField, Refused
from tutti.cli.failures import Failure
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_PUBLISHED,
    CROWD_IMPORTED,
    Axis,
    CampaignSpec,
    CreateCampaignRequest,
    InviteAnnotatorRequest,
    ListAnnotatorsRequest,
    ReadPreferencesRequest,
    RetractAnnotatorRequest,
)
from tutti.corpus.conversations.conversations import Preference, from_lines

NAME = "campaigns/a"


def judged(number: int, annotator: str, score: int | str = -1) -> dict[str, Any]:
    """A record of ours, in which the first answer is the better one."""
    answers = [f"good {number}", f"bad {number}"]
    return {"prompt": f"question {number}", "answers": answers, "score": score, "annotator": annotator}


def written(folder: Path, *records: object) -> Path:
    path = folder / "labels.jsonl"
    path.write_text("".join(each if isinstance(each, str) else json.dumps(each) + "\n" for each in records))
    return path


def imported(text: str, **changes: Any) -> CampaignSpec:
    return spec(text, crowd=CROWD_IMPORTED, **changes)


@pytest.fixture
def published(desks: Desks, tmp_path: Path) -> Desks:
    records = [judged(number, name) for number in range(8) for name in ("ada", "bob")]
    (part,) = labels_in(written(tmp_path, *records), ["helpful"]).parts
    assert (part.pairs, part.judgements) == (8, 16)
    desks.create(imported(part.text))
    desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    return desks


def test_an_imported_campaign_is_published_and_its_preferences_say_what_the_file_said(published: Desks) -> None:
    campaign = published.get()
    assert (campaign.pairs, campaign.judgements, campaign.wanted, campaign.annotators) == (8, 16, 16, 2)
    found = preferences(published, "one")
    assert (found.pairs, found.judgements, found.annotators, found.simulated) == (8, 16, 2, False)
    assert found.imported
    read = published.world.insist(lambda: published.stub.ReadPreferences(ReadPreferencesRequest(name=found.name)))
    lines = list(from_lines(Preference, read.data))
    assert {each.answers[0].startswith("good") for each in lines} == {True, False}  # neither place is the better one
    assert all((each.first > 0.5) == each.answers[0].startswith("good") for each in lines)
    every = published.stub.ListAnnotators(ListAnnotatorsRequest(campaign=NAME)).annotators
    assert [(each.key, each.judged, each.fast) for each in every] == [("ada", 8, 0), ("bob", 8, 0)]


def test_an_annotator_of_imported_judgements_is_retracted_and_nobody_is_invited(published: Desks) -> None:
    whole = published.get().result.content_digest
    request = RetractAnnotatorRequest(campaign=NAME, key="bob", reason="it was a script")
    published.world.insist(lambda: published.stub.RetractAnnotator(request))
    published.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED and found.result.content_digest != whole)
    assert preferences(published, "one").judgements == 8
    with pytest.raises(Refused, match="imported judgements"):
        published.stub.InviteAnnotator(InviteAnnotatorRequest(campaign=NAME, user="users/eve"))


def line(**changes: Any) -> str:
    judgements = [{"annotator": "ada", "scores": {"helpful": 1}}]
    prompt = [{"role": "user", "content": "why?"}]
    return json.dumps({"prompt": prompt, "answers": ["so", "no"], "judgements": judgements} | changes)


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        (line(judgements=[]), {}, "0 judgements"),
        (line(), {"crowd": 1}, "1 judgements"),
        (line(judgements=[{"annotator": "ada", "scores": {"other": 1}}]), {}, "other axes"),
        (line(judgements=[{"annotator": "ada", "scores": {"helpful": 3}}]), {}, "expected -2 … 2"),
        (line(judgements=[{"annotator": "a b", "scores": {"helpful": 1}}]), {}, "1 to 40"),
        (line(judgements=[{"annotator": "ada", "scores": {"helpful": 1}}] * 2), {}, "an annotator twice"),
        (line(), {"axes": [Axis(name="helpful"), Axis(name="true")]}, "other axes"),
    ],
)
def test_judgements_that_do_not_fit_the_campaign_are_refused(
    desks: Desks, text: str, changes: dict[str, Any], words: str
) -> None:
    request = CreateCampaignRequest(request_id="a", name=NAME, spec=imported(text))
    request.spec.crowd = changes.get("crowd", CROWD_IMPORTED)
    if "axes" in changes:
        del request.spec.axes[:]
        request.spec.axes.extend(changes["axes"])
    with pytest.raises(InvalidField, match=words):
        desks.stub.CreateCampaign(request)


def test_lines_that_are_no_judgement_are_counted_and_the_first_quoted(tmp_path: Path) -> None:
    good = {"prompt": "why?", "chosen": "so", "rejected": "no"}
    path = written(tmp_path, good, good, "{\n", "[]\n", {"text": "x"}, {"text": "y"}, "\n")
    found = labels_in(path, ["helpful"])
    assert [(each.pairs, each.judgements) for each in found.parts] == [(1, 1)]
    assert [each.split(":")[0] for each in found.quoted[:3]] == ["line 2", "line 3", "line 4"]
    assert found.quoted[-1].endswith("left out: 5")
    path.write_bytes(b"\xff\xfe")
    assert "not JSON" in labels_in(path, ["helpful"]).quoted[0]
    with pytest.raises(Failure, match="cannot be read"):
        labels_in(tmp_path / "missing.jsonl", ["helpful"])


def test_a_list_in_json_and_rows_of_parquet_are_read_like_lines(tmp_path: Path) -> None:
    records = [judged(number, "ada") for number in range(3)] + [{"text": "x"}]
    lines = labels_in(written(tmp_path, *records), ["helpful"])
    (tmp_path / "labels.json").write_text(json.dumps(records))
    (tmp_path / "labels.json.gz").write_bytes(gzip.compress(json.dumps(records).encode()))
    pq.write_table(pa.Table.from_pylist(records[:3]), tmp_path / "labels.parquet")  # type: ignore[no-untyped-call]
    for name in ("labels.json", "labels.json.gz", "labels.parquet"):
        assert labels_in(tmp_path / name, ["helpful"]).parts == lines.parts
    assert len(labels_in(tmp_path / "labels.json", ["helpful"]).quoted) == len(lines.quoted) == 2


def test_a_byte_order_mark_hides_no_record(tmp_path: Path) -> None:
    path = written(tmp_path, judged(0, "ada"), judged(1, "ada"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    found = labels_in(path, ["helpful"])
    assert ([each.pairs for each in found.parts], found.quoted) == ([2], [])


def test_fields_of_labels_that_are_not_read_are_listed(tmp_path: Path) -> None:
    found = labels_in(written(tmp_path, {"prompt": "why?", "chosen": "so", "rejected": "no", "id": 1}), ["helpful"])
    (words,) = found.quoted
    assert words.endswith(": id")


def test_a_large_file_becomes_several_campaigns(tmp_path: Path) -> None:
    records = [judged(number, "ada") | {"prompt": "x" * 1_000_000 + str(number)} for number in range(5)]
    found = labels_in(written(tmp_path, *records), ["helpful"])
    assert [each.pairs for each in found.parts] == [3, 2]


def test_the_default_guideline_does_not_depend_on_the_name_of_the_file(tmp_path: Path) -> None:
    one, other = (tmp_path / name for name in ("one.jsonl", "other.jsonl"))
    requests = []
    for path in (one, other):
        path.write_text(json.dumps(judged(0, "ada")) + "\n")
        (part,) = labels_in(path, ["helpful"]).parts
        requests.append(imported_spec(part, ["helpful"]))
    assert requests[0] == requests[1]
    assert "one" not in str(requests[0])
