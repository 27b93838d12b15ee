import os
import stat
import sys
import webbrowser
from pathlib import Path

import pytest

from tutti.cli import loginfiles

URL = "http://127.0.0.1:7600/login/secret-token?next=/runs/a%22b"
WITHOUT_END = 1e9


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


@pytest.fixture
def browser(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A browser that writes its arguments to this file and ends."""
    program, heard = home / "browser.py", home / "heard"
    program.write_text("import sys\nopen(sys.argv[1], 'w').write('\\n'.join(sys.argv[2:]))\n")
    monkeypatch.setenv("BROWSER", f"{sys.executable} {program} {heard} %s")
    monkeypatch.setattr(webbrowser, "_tryorder", None)  # it reads the variable once a process
    monkeypatch.setattr(webbrowser, "_browsers", {})
    return heard


def left(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.name.startswith(loginfiles.PREFIX)]


def test_a_browser_gets_a_file_of_our_own_instead_of_the_link(home: Path, browser: Path) -> None:
    answers = iter([False, True])
    assert loginfiles.browse(URL, lambda: next(answers), WITHOUT_END)
    address = browser.read_text()
    assert address.startswith("file:///")
    assert "secret-token" not in address
    assert left(home) == []


def test_a_file_is_removed_after_the_deadline(home: Path, browser: Path) -> None:
    assert loginfiles.browse(URL, lambda: False, seconds=0.0)
    assert left(home) == []


def test_a_file_is_removed_when_the_command_is_interrupted(home: Path, browser: Path) -> None:
    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loginfiles.browse(URL, interrupted, WITHOUT_END)
    assert left(home) == []


def test_nobody_else_can_read_the_file_under_any_umask(home: Path) -> None:
    before = os.umask(0)
    try:
        with loginfiles.redirecting(URL) as path:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert path.read_text().count(URL) == 2
    finally:
        os.umask(before)
    assert not path.exists()


@pytest.mark.parametrize(
    ("made", "expected"), [([], ""), (["Downloads"], "Downloads"), (["Downloads", "Fetched"], "Fetched")]
)
def test_browsers_in_sandboxes_can_read_the_folder(home: Path, made: list[str], expected: str) -> None:
    (home / ".config").mkdir()
    (home / ".config" / "user-dirs.dirs").write_text('# a comment\nXDG_DOWNLOAD_DIR="$HOME/Fetched"\n')
    for name in made:
        (home / name).mkdir()
    with loginfiles.redirecting(URL) as path:
        assert path.parent == home / expected
        assert not path.name.startswith(".")


def test_a_folder_in_which_others_write_is_not_used(home: Path) -> None:
    (home / "Downloads").mkdir()
    (home / "Downloads").chmod(0o777)
    with loginfiles.redirecting(URL) as path:
        assert path.parent == home
    home.chmod(0o777)
    with pytest.raises(PermissionError), loginfiles.redirecting(URL):
        pass


def test_files_of_a_killed_command_are_removed_by_the_next(home: Path) -> None:
    stale, fresh = (home / f"{loginfiles.PREFIX}{name}{loginfiles.SUFFIX}" for name in ("stale", "fresh"))
    for path in (stale, fresh):
        path.write_text("")
    os.utime(stale, (0, 0))
    with loginfiles.redirecting(URL):
        assert (stale.exists(), fresh.exists()) == (False, True)
