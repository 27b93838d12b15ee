"""A folder is edited between runs: a page is what the newest run read, a page that stayed came through every run."""

from pathlib import Path

import pytest

from tests.e2e.command import tiny, tutti

PROSE = "The people of the town have to be happy with the {}, number {}, that they see from the bridge. "
EDITED, KEPT = "rivers.md", "bees.md"
TEXTS = (1, 0, 2, 0)  # of the edited page, run by run


def text(page: str, number: int) -> str:
    return "".join(PROSE.format(page, f"{number}-{line}") for line in range(20))


@pytest.fixture(scope="module")
def runs(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A run for each of `TEXTS`, over eight pages of which one is edited before each but the first."""
    folder = tmp_path_factory.mktemp("pages")
    for page in (KEPT, *(f"page-{number}.md" for number in range(6))):
        (folder / page).write_text(text(page, 0))
    made = []
    for number in TEXTS:
        (folder / EDITED).write_text(text("river", number))
        result = tutti(*tiny(data_dir, folder, "train.steps=2", "dedup.near=0"))
        assert result.code == 0, result.err
        made.append(result.json()["run"]["name"])
    return made


def test_of_an_edited_page_the_newest_text_is_shown_and_the_others_are_named(runs: list[str], data_dir: Path) -> None:
    shown = tutti("documents", "show", EDITED, "--data-dir", data_dir)
    assert text("river", 0).strip() in shown.out
    others = tutti("documents", "show", EDITED, "-o", "json", "--data-dir", data_dir).json()["versions"]
    named = ", ".join(name[: len("documents/") + 12] for name in others)
    assert f"this is the newest of 3 versions that runs read, before {named}" in shown.err
    older = [tutti("documents", "show", name, "-o", "json", "--data-dir", data_dir).json() for name in others]
    assert [each["text"].strip() for each in older] == [text("river", number).strip() for number in (2, 1)]
    assert [each["versions"] for each in older] == [[], []]


@pytest.mark.parametrize(("page", "read", "datasets", "versions"), [(EDITED, [1, 3], 1, 3), (KEPT, [0, 1, 2, 3], 3, 1)])
def test_a_page_came_through_every_run_that_read_its_text(
    runs: list[str], data_dir: Path, page: str, read: list[int], datasets: int, versions: int
) -> None:
    up = tutti("trace", page, "-o", "json", "--data-dir", data_dir).json()
    found = [each["name"] for each in up["vertices"] if each["kind"] == "run"]
    assert sorted(found) == sorted(runs[number] for number in read)
    down = tutti("trace", page, "--down", "-o", "json", "--data-dir", data_dir).json()
    kinds = [each["kind"] for each in down["vertices"]]
    assert (kinds.count("dataset"), kinds.count("checkpoint")) == (datasets, datasets)
    assert len(down["versions"]) == len(up["versions"]) == versions - 1
