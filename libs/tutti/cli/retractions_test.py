"""What a person is told of a retraction."""

import pytest

from tutti.cli.retractions import moves


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
