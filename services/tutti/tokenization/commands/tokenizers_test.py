"""Tokenizers beside others: a table has each group once, with what every tokenizer makes of it."""

from tutti.report.references import Reference, measured
from tutti.report.texts import Group
from tutti.tokenization.commands.tokenizers import beside, heads

GROUPS = [Group("en", ("the lamp", "the mill")), Group("de", ("grün",))]
NAMES = {
    "tokenizers/" + "0f" * 32: Reference(512, lambda texts: sum(map(len, texts))),
    "some/model": Reference(50_257, len),
}


def test_a_row_of_the_table_is_a_group_and_a_column_a_tokenizer() -> None:
    rows, columns = beside(measured(NAMES, GROUPS), NAMES)
    assert [[row[column] for column in columns] for row in rows] == [
        ["en", 2, 16, 1.0, 8.0],
        ["de", 1, 5, 1.25, 5.0],
    ]
    assert [heads(NAMES)[column] for column in columns[3:]] == ["tokenizers/0f0f0f0f0f0f (512)", "some/model (50,257)"]
