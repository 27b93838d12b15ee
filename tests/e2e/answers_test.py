"""The page of mistakes is what the commands answer."""

from pathlib import Path

from tools.mistakes import ALONE, PAGE, SERVED, answers, page

from tests.e2e.command import platform


def test_each_mistake_is_answered_in_one_line_as_the_page_says(tmp_path: Path) -> None:
    served, folder = tmp_path / "served", tmp_path / "work"
    folder.mkdir()
    with platform(served, agents=0):
        found = list(answers(served, folder))
    assert len(found) == len(SERVED) + len(ALONE) >= 25
    assert [each.command for each in found if each.code not in (1, 2, 3)] == []
    assert page(found).splitlines() == PAGE.read_text().splitlines()
