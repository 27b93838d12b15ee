"""Dropped records: said with their share, the field that is there and the remedy, before anything is trained."""

import pytest

from tutti.contracts.ingest.v1 import (
    Conversations,
    DroppedFile,
    Ingest,
    InputSample,
    ReasonCount,
    RejectedConversations,
    SampledRejections,
)
from tutti.contracts.pipeline.v1 import InputReport
from tutti.pipeline.commands import inputsamples
from tutti.pipeline.plans import graph, reading
from tutti.pipeline.recipes.values import Source
from tutti.pipeline.runs.requests import dropped
from tutti.pipeline.stages.conversations import STAGE as CONVERSATIONS
from tutti.pipeline.stages.ingest import STAGE as INGEST

TEXT = "input: {path: pages}\ntrain: {steps: 20}\n"
DETAIL = "the field 'text' is missing; texts are in: 'content.text' (input.text_field names it)"
LOST = DroppedFile(path="a.jsonl", records=284, detail=DETAIL)


def made(documents: int, rejected: int) -> Ingest:
    counts = [ReasonCount(reason="no_text", pages=rejected)] if rejected else []
    return Ingest(documents=documents, rejected=rejected, left_out=counts, dropped=[LOST] if rejected else [])


def test_a_run_stops_at_a_file_of_which_no_record_is_read_even_if_the_share_is_small() -> None:
    view = graph.node_of(reading.read(TEXT), "ingest").view
    assert INGEST.objection(view, made(10_000, 0)) == ""
    objection = INGEST.objection(view, made(10_000, 284))
    assert "284 records of a.jsonl" in objection
    assert DETAIL in objection
    allowed = reading.read(TEXT.replace("pages}", "pages, most_rejected: 0.9}"))
    assert INGEST.objection(graph.node_of(allowed, "ingest").view, made(10_000, 284)) == ""


def test_a_check_finds_such_a_file_before_anything_runs() -> None:
    source = Source("/pages", "blake3:00", "ingest-1", sample=InputSample(documents=9, dropped=[LOST]))
    recipe = reading.read(TEXT)
    (place,) = (node.place for node in graph.nodes(recipe) if node.folder is not None)
    (problem,) = dropped(recipe, {place: source})
    assert problem.field == "input.text_field"
    assert "content.text" in str(problem)
    assert dropped(recipe, {place: Source("/pages", "blake3:00", "ingest-1")}) == []


def test_the_share_the_reason_and_the_remedy_are_in_the_summary_of_a_stage() -> None:
    summary = INGEST.summary(made(716, 284))
    assert all(each in summary for each in ("28.4%", "no_text", "input.text_field"))
    read = Conversations(conversations=3, rejected=[RejectedConversations(reason="unread_field", records=1)])
    assert "25.0%" in CONVERSATIONS.summary(read)


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ({"pdf": 3}, "all as pdf"),
        ({"pdf": 2, "empty": 1}, "most as pdf"),
        ({"pdf": 1, "empty": 1}, "1 as empty, 1 as pdf"),
    ],
)
def test_the_reason_of_most_rejections_is_named_only_if_it_is_that_of_more_than_half(
    pages: dict[str, int], words: str
) -> None:
    left_out = [ReasonCount(reason=reason, pages=count) for reason, count in pages.items()]
    assert words in INGEST.summary(Ingest(documents=1, rejected=sum(pages.values()), left_out=left_out))


def test_every_share_of_a_sample_is_said_not_only_a_large_one() -> None:
    rejection = SampledRejections(reason="no_text", records=2, path="a.jsonl:1", detail=DETAIL)
    report = InputReport(key="input.path", path="pages", sample=InputSample(documents=98, rejections=[rejection]))
    (line,) = inputsamples.warnings([report])
    assert all(
        each in line for each in ("2 of 100", "2.0% (0.6% to 7.0%, n = 100)", "content.text", "input.text_field")
    )
    assert list(inputsamples.warnings([InputReport(sample=InputSample(documents=100))])) == []


def test_a_share_of_all_pages_is_exact_and_every_reason_is_named() -> None:
    rejections = [
        SampledRejections(reason=reason, records=1, path=path, detail="")
        for reason, path in (("empty", "a.md"), ("pdf", "b.pdf"))
    ]
    report = InputReport(key="input.path", sample=InputSample(documents=28, complete=True, rejections=rejections))
    (line,) = inputsamples.warnings([report])
    assert all(each in line for each in ("2 of all 30", "6.7%", "empty: a.md", "pdf: b.pdf"))
    assert "n = " not in line
    assert "sampled" not in line
