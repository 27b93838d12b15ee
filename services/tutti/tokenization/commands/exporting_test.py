"""Exports of datasets, as the command offers them."""

from tutti.corpus.documents.sampleformats import FORMATS
from tutti.tokenization.commands.exporting import ENDINGS


def test_the_formats_of_an_export_are_those_that_can_be_written() -> None:
    assert {name: each.ending for name, each in FORMATS.items()} == ENDINGS
