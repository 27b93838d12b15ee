"""What `tutti trace` shows a person."""

import pytest

from tutti.client.plain import Plain
from tutti.corpus.documents.duplicates import How
from tutti.lineage.commands import tracing
from tutti.report import passages

ODD = "a\n\x1b]0;x\x07.txt"  # files may be named so
SHOWN = r"a\n\x1b]0;x\x07.txt"
SIGHTING = {"job": "jobs/j", "line": 0, "step": 1, "leaf": 0, "row": 0, "sample": 2, "document": "documents/d"}


def shown(capsys: pytest.CaptureFixture[str], **answer: object) -> list[str]:
    tracing.show(dict(answer))
    out, err = capsys.readouterr()
    return [*out.splitlines(), *err.splitlines()]


def test_a_terminal_obeys_no_name_of_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    page = {"kind": "document", "name": "documents/d", "label": ODD}
    assert shown(capsys, vertices=[page]) == [f"document         documents/d  {SHOWN}"]
    one = SIGHTING | {"source": ODD}
    assert shown(capsys, sightings=[one])[0].endswith(f", documents/d, {SHOWN}")
    assert shown(capsys, sightings=[one, one | {"source": "b"}])[2].endswith(SHOWN)
    passage: Plain = {"text": ODD, "tokens": 3, "count": 1, "documents": [{"source": ODD, "steps": None}]}
    assert list(passages.lines(passage))[1] == f"    {SHOWN}"


def test_a_run_that_reused_a_resource_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [{"kind": "run", "name": f"runs/{name}", "label": ""} for name in "ab"]
    edges = [{"parent": "runs/a", "relation": "made"}, {"parent": "runs/b", "relation": "reused"}]
    assert ["reused" in line for line in shown(capsys, vertices=runs, edges=edges)] == [False, True]


@pytest.mark.parametrize("how", [How.EXACT, How.NEAR, How.EARLIER])
def test_the_document_that_was_kept_instead_of_a_duplicate_is_named_with_the_command_that_traces_it(
    how: How, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = f"documents/{'4219edf2' * 8}"
    fate, hint = shown(capsys, fate=how.fate(0.9, f"{kept} ({ODD})"))
    assert f"({SHOWN})" in fate
    assert f"`tutti trace {kept[:22]} --down`" in hint


@pytest.mark.parametrize("how", [How.CONTAMINATED, How.CONTAMINATED_NEAR])
def test_a_page_that_was_left_out_for_an_evaluation_text_has_no_such_command(
    how: How, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(shown(capsys, fate=how.fate(0.9, f"documents/{'4219edf2' * 8}"))) == 1


def test_blobs_that_are_gone_are_named_as_far_as_they_are_few(capsys: pytest.CaptureFixture[str]) -> None:
    said = "blobs are gone, so what they hold of it is not told: "
    assert shown(capsys, gone=["a", "b"]) == [f"{said}a, b"]
    assert shown(capsys, gone=list("abcdefg")) == [f"{said}a, b, c, d, e and 2 more"]
    assert shown(capsys, gone=[]) == []
