"""The data directory: one owner, its version, its tokens."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tutti.backbone.files import Handle, RealFiles
from tutti.chassis.config.datadir import DataDir, DiskFull, InUse, NewerVersion, NotUsable, endpoint_in
from tutti.chassis.identity.auth import HELD, Role, Tokens


class FullDisk(RealFiles):
    def create(self, path: Path) -> Handle:
        raise OSError(28, "No space left on device")


def test_a_path_with_spaces_and_letters_of_any_kind_will_do(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / "my däta" / "dir #1")
    data_dir.announce("127.0.0.1:1")
    assert data_dir.endpoint() == "127.0.0.1:1"
    assert "%20" in data_dir.database_url


def test_tokens_are_made_once_and_for_the_owner_alone(tmp_path: Path) -> None:
    first, second = DataDir(tmp_path).tokens(), DataDir(tmp_path).tokens()
    assert stat.S_IMODE((tmp_path / "tokens").stat().st_mode) == 0o600
    assert {first.of(role) for role in HELD} == {second.of(role) for role in HELD}
    assert len({first.of(role) for role in HELD}) == len(HELD)
    assert first.role_of(first.of(Role.AGENT)) is Role.AGENT
    assert first.role_of("tutti-agent-other") is None


def test_tokens_that_others_can_read_are_refused(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    data_dir.tokens()
    (tmp_path / "tokens").chmod(0o644)
    with pytest.raises(NotUsable, match="chmod 600"):
        data_dir.tokens()


def test_tokens_that_lack_a_role_are_refused() -> None:
    with pytest.raises(ValueError, match="no token for engineer"):
        Tokens.parse("operator x\n")
    with pytest.raises(ValueError, match="line 1"):
        Tokens.parse("root x\n")


def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path) -> None:
    with (
        owner(tmp_path) as process,
        pytest.raises(InUse, match=rf"in use by process {process.pid} \(a test\) since 20"),
    ):
        DataDir(tmp_path).lock("another")
    DataDir(tmp_path).lock("another").release()


def test_the_lock_of_a_killed_owner_is_free(tmp_path: Path) -> None:
    with owner(tmp_path) as process:
        process.kill()
        process.wait()
        DataDir(tmp_path).lock("another").release()


def test_a_part_of_a_directory_keeps_a_name_that_no_other_has(tmp_path: Path) -> None:
    first, again = DataDir(tmp_path / "a"), DataDir(tmp_path / "a")
    assert first.instance("scheduler") == again.instance("scheduler")
    others = (first.instance("committer"), DataDir(tmp_path / "b").instance("scheduler"))
    assert len({first.instance("scheduler"), *others}) == 3


def test_ports_of_the_pages_are_kept(tmp_path: Path) -> None:
    first = DataDir(tmp_path)
    assert (first.ports(), first.ports("annotation")) == ([], [])
    first.keep_ports([20_001, 20_002])
    first.keep_ports([20_003], "annotation")
    again = DataDir(tmp_path)
    assert (again.ports(), again.ports("annotation")) == ([20_001, 20_002], [20_003])


@pytest.mark.parametrize("content", [b"", b"\n", b"0\n", b"65536\n", b"20001 \n", b"\xff\xb2", b"-1", b"1\n\n2"])
def test_ports_that_are_none_are_refused_by_the_name_of_their_file(tmp_path: Path, content: bytes) -> None:
    data_dir = DataDir(tmp_path)
    (tmp_path / "pages.ports").write_bytes(content)
    with pytest.raises(NotUsable, match=r"pages\.ports holds .* remove it"):
        data_dir.ports()


def test_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("99\n")
    with pytest.raises(NewerVersion, match="version 99"):
        DataDir(tmp_path)
    assert os.listdir(tmp_path) == ["version"]


def test_a_folder_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("mine\n")
    with pytest.raises(NotUsable, match="is this a data directory of Tutti"):
        DataDir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotUsable, match="--data-dir"):
        DataDir(tmp_path / "file" / "below")


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(DiskFull, match="free some space"):
        DataDir(tmp_path / "new", files=FullDisk())


def test_only_the_own_announcement_is_withdrawn(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    data_dir.announce("127.0.0.1:1")
    data_dir.announce("127.0.0.1:2")
    data_dir.withdraw("127.0.0.1:1")
    assert endpoint_in(tmp_path) == "127.0.0.1:2"
    data_dir.announce("127.0.0.1:3", "scheduler")
    assert endpoint_in(tmp_path, "scheduler") == "127.0.0.1:3"
    assert endpoint_in(tmp_path, "committer") == "127.0.0.1:2"
    data_dir.withdraw("127.0.0.1:2")
    assert endpoint_in(tmp_path) is None


@contextmanager
def owner(path: Path) -> Iterator[subprocess.Popen[str]]:
    program = (
        "import sys; from pathlib import Path; from tutti.chassis.config.datadir import DataDir; "
        "lock = DataDir(Path(sys.argv[1])).lock('a test'); print('locked', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_new_directory_is_its_owners_alone(tmp_path: Path) -> None:
    assert DataDir(tmp_path / "a" / "data").path.stat().st_mode & 0o777 == 0o700
    (own := tmp_path / "own").mkdir()
    own.chmod(0o755)
    assert DataDir(own).path.stat().st_mode & 0o777 == 0o755
