"""What a person is told of a retraction."""

import pytest

from tutti.client.plain import Plain
from tutti.contracts.lineage.v1 import Reach, ReachedDocument
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.lineage.commands.retractions import evaluated, moves, parts


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("records.jsonl:3", True),
        ("below/rows.parquet:12", True),
        ("page.html", False),
        ("http://a.example:8080", False),
        ("https://a.example/page:3", False),
        ("", False),
    ],
)
def test_a_record_that_is_named_by_its_place_may_be_another_later(source: str, expected: bool) -> None:
    assert moves(source) is expected


def test_of_an_evaluation_text_it_is_said_that_it_stays_in_use_and_in_which_runs() -> None:
    reach = Reach(documents=[ReachedDocument(document="documents/e", ingests=["ingests/e"])])
    others = [Stage(name="ingest", resource="ingests/e"), Stage(name="evaluation", resource="ingests/other")]
    every = [
        Run(name="runs/b", stages=[Stage(name="evaluation", resource="ingests/e")]),
        Run(name="runs/a", stages=[*others[:1], Stage(name="evaluation", resource="ingests/e")]),
        Run(name="runs/c", stages=others),
    ]
    assert evaluated(every, reach) == ["runs/a", "runs/b"]
    answer: Plain = {"evaluated": ["runs/a", "runs/b"], "datasets": [], "lines": [], "checkpoints": []}
    told = "runs/a, runs/b  an evaluation text; it stays in use until it is taken out of the folder"
    assert parts(answer) == [told]
    assert parts({**answer, "evaluated": []}) == []
