"""The source under which a run reads a file."""

from pathlib import Path

from tutti.lineage.commands.pagefiles import source_in


def test_it_is_the_path_below_the_folder_or_the_name_of_the_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(folder)
    file = folder / "deep" / "a.md"
    assert source_in(str(folder), str(file)) == "deep/a.md"
    assert source_in(str(tmp_path / "link"), str(file)) == "deep/a.md"
    assert source_in(str(file), str(file)) == "a.md"
    for other in ("", str(tmp_path / "text"), str(folder / "deep" / "b.md")):
        assert source_in(other, str(file)) == ""


def test_it_is_composed_as_that_of_a_page(tmp_path: Path) -> None:
    assert source_in(str(tmp_path), str(tmp_path / "cafe\u0301.md")) == "caf\u00e9.md"
