"""The data directory: one owner, its version, its tokens."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tutti.backbone.files import Handle, RealFiles
from tutti.chassis.config.datadir import (
    FOLDERS,
    DataDir,
    DataDirError,
    DiskFull,
    InUse,
    NewerVersion,
    NotUsable,
    endpoint_in,
    is_data_dir,
    pages_in,
    tokens_in,
)
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


@pytest.mark.parametrize(
    ("url", "ports"),
    [
        ("http://127.0.0.1:34777", [34777]),
        ("http://[::1]:34777", [34777]),
        ("https://127.0.0.1:34777", []),  # a proxy has this port
        ("http://tutti.example:8080", []),
        ("http://127.0.0.1", []),
        ("http://127.0.0.1:0", []),
        ("http://127.0.0.1:99999", []),
        ("no URL", []),
    ],
)
def test_where_0_2_0_was_killed_the_port_of_its_pages_is_kept(tmp_path: Path, url: str, ports: list[int]) -> None:
    data_dir = DataDir(tmp_path)
    data_dir.announce_pages(url)
    assert data_dir.ports() == ports


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


NOBODY = 65534


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def readable_by_another(path: Path) -> list[str]:
    """Names in a directory, and below it, that the account `nobody` sees; run as root."""
    program = (
        "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); print(*[name for folder, folders, files "
        "in os.walk(sys.argv[1]) for name in folders + files])"
    )
    command = [sys.executable, "-I", "-S", "-c", program, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@contextmanager
def under(umask: int) -> Iterator[None]:
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_no_folder_of_a_new_directory_is_for_others_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    with under(umask):
        data_dir = DataDir(tmp_path / "above" / "own")
        data_dir.tokens()
    assert {mode(path) for path in (data_dir.path, *map(data_dir.path.joinpath, FOLDERS))} == {0o700}
    assert not mode(tmp_path / "above") & 0o022


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_another_account_reads_nothing_of_directories_new_and_old(umask: int) -> None:
    with tempfile.TemporaryDirectory() as folder, under(umask):
        Path(folder).chmod(0o755)
        DataDir(Path(folder) / "new").tokens()
        old = release_of_0_2_0(Path(folder) / "old")
        old.chmod(0o755)
        DataDir(old)
        assert sorted(readable_by_another(Path(folder))) == ["new", "old"]


@pytest.mark.parametrize(("seen", "files"), [(0o755, ["notes"]), (0o777, []), (0o777, ["notes"])])
def test_a_folder_that_others_can_use_becomes_no_data_directory(tmp_path: Path, seen: int, files: list[str]) -> None:
    (folder := tmp_path / "own").mkdir()
    for name in files:
        (folder / name).write_text("")
    folder.chmod(seen)
    with pytest.raises(NotUsable, match=f"chmod 700 {folder}"):
        DataDir(folder)
    assert os.listdir(folder) == files
    folder.chmod(0o700)  # as the message says
    DataDir(folder)


def test_an_empty_folder_of_ours_is_closed(tmp_path: Path) -> None:
    (folder := tmp_path / "own").mkdir(0o755)
    DataDir(folder)
    assert mode(folder) == 0o700


def release_of_0_2_0(path: Path) -> Path:
    """A directory as 0.2.0 left it under the umask of the test: its folders have no mode of their own."""
    path.mkdir(parents=True, exist_ok=True)
    for name in FOLDERS:
        (path / name).mkdir()
    (path / "version").write_text("1\n")
    (path / "db" / "access.db").write_text("users")
    return path


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_a_directory_of_0_2_0_goes_on_and_its_folders_are_closed(tmp_path: Path, umask: int) -> None:
    with under(umask):
        old = release_of_0_2_0(tmp_path / "old")
    old.chmod(0o700)
    DataDir(old)
    assert {mode(old / name) for name in FOLDERS} == {0o700}
    assert (old / "db" / "access.db").read_text() == "users"


def test_a_directory_of_0_2_0_that_existed_before_is_closed_unless_others_could_write_to_it(tmp_path: Path) -> None:
    with under(0o022):
        readable = release_of_0_2_0(tmp_path / "readable")
    with under(0o000):
        writable = release_of_0_2_0(tmp_path / "writable")
    DataDir(readable)
    assert mode(readable) == 0o700
    with pytest.raises(NotUsable, match=f"chmod 700 {writable}"):
        DataDir(writable)


def test_what_was_unpacked_from_an_archive_without_empty_folders_is_closed(tmp_path: Path) -> None:
    old = release_of_0_2_0(tmp_path / "old")
    for name in ("log", "agents", "logs", "endpoints"):
        (old / name).rmdir()
    old.chmod(0o755)
    DataDir(old)
    assert mode(old) == 0o700


def test_the_volume_of_a_container_of_0_2_0_is_moved_into_a_folder_of_it_once(tmp_path: Path) -> None:
    (volume := tmp_path / "volume").mkdir()
    with under(0o022):
        release_of_0_2_0(volume)
    volume.chmod(0o1777)  # as in the images
    data_dir = DataDir(volume / "data")
    assert (data_dir.path / "db" / "access.db").read_text() == "users"
    assert os.listdir(volume) == ["data"]
    assert mode(data_dir.path) == 0o700
    (volume / "version").write_text("1\n")  # of whoever shares the volume
    DataDir(volume / "data")
    assert sorted(os.listdir(volume)) == ["data", "version"]


def test_a_move_that_a_crash_interrupted_is_finished(tmp_path: Path) -> None:
    (volume := tmp_path / "volume").mkdir()
    release_of_0_2_0(volume)
    volume.chmod(0o1777)
    (moving := volume / ".data.moving").mkdir(0o700)
    (volume / "version").rename(moving / "version")
    (volume / "db").rename(moving / "db")
    DataDir(volume / "data")
    assert (volume / "data" / "db" / "access.db").read_text() == "users"
    assert os.listdir(volume) == ["data"]


def test_a_folder_of_a_data_directory_that_is_ours_is_not_mistaken_for_a_volume(tmp_path: Path) -> None:
    outer = DataDir(tmp_path / "own")
    DataDir(outer.path / "data")
    assert (outer.path / "version").exists()


def test_a_pipe_in_a_directory_is_no_address_and_no_token(tmp_path: Path) -> None:
    for name in ("endpoint", "tokens"):
        os.mkfifo(tmp_path / name)
    assert endpoint_in(tmp_path) is None
    with pytest.raises(NotUsable, match="regular"):
        tokens_in(tmp_path)


@pytest.mark.parametrize("name", ["version", "endpoint", "host.instance", "pages.ports", "pages"])
def test_a_pipe_where_a_directory_keeps_a_file_makes_nobody_wait(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert not is_data_dir(tmp_path)
    assert pages_in(tmp_path, "ingest") is None
    with suppress(DataDirError):
        data_dir = DataDir(tmp_path)
        for look in (lambda: data_dir.instance("host"), lambda: data_dir.ports(None)):
            with suppress(DataDirError):
                look()
        data_dir.withdraw("127.0.0.1:1")
