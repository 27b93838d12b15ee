"""What cannot be written is told by the name that somebody gave."""

from pathlib import Path

import click
import pytest

from tutti.cli.failures import Failure
from tutti.cli.targets import written_to


@pytest.mark.parametrize("seen", ["to/.model.1a2b", "to/model/x.json", "to"])
def test_a_part_that_cannot_be_written_is_told_by_the_name_of_the_whole(tmp_path: Path, seen: str) -> None:
    target = tmp_path / "to" / "model"
    with pytest.raises(Failure) as refused, written_to(target, "--to"):
        raise OSError(30, "Read-only file system", str(tmp_path / seen))
    assert str(refused.value) == f"{target} cannot be written: Read-only file system; name another place with --to"


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    words = "model cannot be written: the disk is full; free some space, and try again"
    with pytest.raises(Failure, match=words), written_to(tmp_path / "model", "--to"):
        raise OSError(28, "No space left on device", str(tmp_path / ".model.1a2b"))


def test_what_is_there_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match="is there"), written_to(tmp_path, "--to"):
        raise FileExistsError(f"{tmp_path} is there")


@pytest.mark.parametrize("name", [None, "/proc/else"])
def test_trouble_with_something_else_is_not_said_to_be_of_the_target(tmp_path: Path, name: str | None) -> None:
    with pytest.raises(OSError, match="broken"), written_to(tmp_path / "model", "--to"):
        raise OSError(5, "broken", name)
