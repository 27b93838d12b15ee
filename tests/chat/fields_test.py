"""The table of the fields of the API in the documentation is that of the code."""

from pathlib import Path

from tutti.chat.openapi import table

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"


def test_the_documentation_has_the_table_of_the_fields() -> None:
    page = PAGE.read_text()
    begin = page.index("\n", page.index("<!-- fields:")) + 1
    written = page[begin : page.index("<!-- end of fields -->")].strip()
    assert written == table(), f"replace the table of {PAGE} by:\n{table()}"
