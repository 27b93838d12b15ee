"""Folders and files of which other accounts of the machine can use nothing."""

import errno
import os
import stat
from pathlib import Path

import pytest

from tutti.backbone.files import make_folders, overwrite
from tutti.backbone.ours import NotOurs, NotRegular, OwnFiles, claim, open_regular

NOBODY = 65534


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_folder_is_made_for_this_account_and_below_one_that_others_cannot_write_to(
    tmp_path: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        claim(tmp_path / "above" / "own")
    finally:
        os.umask(before)
    assert mode(tmp_path / "above" / "own") == 0o700
    assert not mode(tmp_path / "above") & 0o022


@pytest.mark.parametrize("seen", [0o755, 0o770, 0o777, 0o701])
def test_a_folder_that_others_can_use_is_refused_with_the_command_that_closes_it(tmp_path: Path, seen: int) -> None:
    (folder := tmp_path / "my folder").mkdir()
    folder.chmod(seen)
    with pytest.raises(NotOurs, match=rf"{seen:04o}.*chmod 700 '{folder}'"):
        claim(folder)
    assert mode(folder) == seen


def test_one_that_others_can_read_is_closed_on_demand_and_one_that_they_can_write_to_is_not(tmp_path: Path) -> None:
    (readable := tmp_path / "readable").mkdir(0o755)
    (writable := tmp_path / "writable").mkdir()
    writable.chmod(0o775)
    claim(readable, close=True)
    assert mode(readable) == 0o700
    with pytest.raises(NotOurs):
        claim(writable, close=True)


def test_a_link_is_no_folder_in_a_place_that_others_share(tmp_path: Path) -> None:
    (real := tmp_path / "real").mkdir(0o700)
    (link := tmp_path / "link").symlink_to(real)
    with pytest.raises(NotOurs, match="link"):
        claim(link)
    claim(link, links=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of other accounts")
def test_a_folder_of_another_account_is_refused(tmp_path: Path) -> None:
    (folder := tmp_path / "theirs").mkdir(0o700)
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(NotOurs, match=str(NOBODY)):
        claim(folder, close=True)


def test_what_is_no_regular_file_is_not_opened_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(NotRegular):
            open_regular(path)
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        open_regular(tmp_path / "link")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other accounts")
def test_a_file_of_another_account_is_not_opened_where_ours_is_expected(tmp_path: Path) -> None:
    (file := tmp_path / "file").write_text("theirs")
    os.chown(file, NOBODY, NOBODY)
    with pytest.raises(NotOurs):
        open_regular(file, own=True)
    open_regular(file).close()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_own_files_are_for_this_account_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    files, folder = OwnFiles(), tmp_path / "reports"
    before = os.umask(umask)
    try:
        make_folders(files, folder)
        overwrite(files, folder / "part", folder / "page", [b"x"])
        files.append(folder / "log").close()
        lock = files.try_lock(folder / "lock")
    finally:
        os.umask(before)
    assert lock is not None
    lock.release()
    modes = {path.name: mode(path) for path in (folder, *folder.iterdir())}
    assert modes == {"reports": 0o700, "page": 0o600, "log": 0o600, "lock": 0o600}
