"""Native kernels: compiled once, found again, never trusted from a folder of others, and optional."""

import os
from pathlib import Path

import pytest

from tutti.native.native import NoKernel, cache_folder, compiler, kernel, load

DOUBLE = b"long twice(long x) { return 2 * x; }"


@pytest.fixture
def cc() -> str:
    try:
        return compiler(os.environ)
    except NoKernel as error:
        pytest.skip(str(error))


def test_a_kernel_is_compiled_once_and_found_again(tmp_path: Path, cc: str) -> None:
    folder = tmp_path / "a folder" / "native"
    assert load(DOUBLE, "double", folder, cc).twice(21) == 42
    assert folder.stat().st_mode & 0o777 == 0o700
    (made,) = folder.iterdir()
    written = made.stat().st_mtime_ns
    assert load(DOUBLE, "double", folder, cc).twice(4) == 8
    assert [(path, path.stat().st_mtime_ns) for path in folder.iterdir()] == [(made, written)]


def test_another_source_is_another_file(tmp_path: Path, cc: str) -> None:
    assert load(DOUBLE, "same", tmp_path / "k", cc).twice(3) == 6
    assert load(DOUBLE.replace(b"2", b"3"), "same", tmp_path / "k", cc).twice(3) == 9
    assert len(list((tmp_path / "k").iterdir())) == 2


def test_a_damaged_file_is_made_anew(tmp_path: Path, cc: str) -> None:
    load(DOUBLE, "double", tmp_path / "first", cc)
    (made,) = (tmp_path / "first").iterdir()
    folder = tmp_path / "second"
    folder.mkdir(mode=0o700)
    (folder / made.name).write_bytes(b"no library")
    assert load(DOUBLE, "double", folder, cc).twice(5) == 10


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, cc: str) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(NoKernel, match=r"mode 0777.*expected 0700"):
        load(DOUBLE, "double", tmp_path, cc)


def test_a_source_that_does_not_compile_says_where(tmp_path: Path, cc: str) -> None:
    with pytest.raises(NoKernel, match=r"broken.*error"):
        load(b"this is no C", "broken", tmp_path / "k", cc)
    assert list((tmp_path / "k").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, cc: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NoKernel, match="set XDG_CACHE_HOME"):
        load(DOUBLE, "double", tmp_path / "file" / "native", cc)


def test_without_a_compiler_the_kernel_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoKernel, match="no C compiler"):
        compiler({"PATH": str(tmp_path)})
    source = tmp_path / "double.c"
    source.write_bytes(DOUBLE)
    monkeypatch.setenv("CC", "no-such-compiler")
    found = kernel(source)
    assert (found.name, found.library) == ("double", None)
    assert "'no-such-compiler'" in found.why_not


def test_the_cache_lies_with_the_user() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/somewhere"}) == Path("/somewhere/tutti/native")
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache/tutti/native"
