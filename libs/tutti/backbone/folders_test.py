"""A new folder is there whole or not at all, and what was there stays."""

from pathlib import Path

import pytest

from tutti.backbone.files import RealFiles
from tutti.backbone.folders import new_folder


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_appears_whole(tmp_path: Path, there: bool) -> None:
    target = tmp_path / "parent" / "made"
    if there:
        target.mkdir(parents=True)
    with new_folder(RealFiles(), target) as folder:
        (folder / "one").write_text("1")
        assert not there or not any(target.iterdir())
        assert target.exists() == there
    assert [path.name for path in target.parent.iterdir()] == ["made"]
    assert (target / "one").read_text() == "1"


def failing(target: Path) -> None:
    with new_folder(RealFiles(), target) as folder:
        (folder / "one").write_text("1")
        raise OSError("no room")


def overtaken(target: Path) -> None:
    with new_folder(RealFiles(), target) as folder:
        (folder / "one").write_text("1")
        target.mkdir()
        (target / "theirs").write_text("2")


def test_after_an_error_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no room"):
        failing(tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    mine, link = tmp_path / "mine", tmp_path / "link"
    mine.write_text("precious")
    link.symlink_to("nowhere")
    for taken in (tmp_path, mine, link):
        with pytest.raises(FileExistsError, match="not an empty folder"), new_folder(RealFiles(), taken):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "mine"]


def test_what_somebody_put_there_meanwhile_stays(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        overtaken(tmp_path / "made")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["made", "theirs"]
