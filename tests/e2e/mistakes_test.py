"""A user's mistake ends with one line that says what to do, exit code 2, and nothing half-done."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.command import TINY, platform, tiny, tutti

pytestmark = pytest.mark.xdist_group("e2e-mistakes")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a platform that is up, so that no mistake has to wait for one."""
    folder = tmp_path_factory.mktemp("mistakes")
    with platform(folder):
        yield folder


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.stepps=3", "train.steps"),
        ("train.steps=many", "train.steps"),
        ("train.ranks=9", "train.microbatches"),
        ("input.path=/nowhere/at/all", "input.path"),
        ("nonsense", "KEY=VALUE"),
    ],
)
def test_a_wrong_recipe_is_refused_by_field(override: str, words: str, data_dir: Path, pages: Path) -> None:
    result = tutti(*tiny(data_dir, pages, override))
    assert result.code == 2
    assert words in result.err
    assert "Traceback" not in result.err + result.out


def test_an_empty_folder_is_refused(data_dir: Path, tmp_path: Path) -> None:
    result = tutti(*tiny(data_dir, tmp_path))
    assert result.code == 2
    assert "input.path" in result.err


def test_only_unreadable_pages_fail_the_run_with_the_reasons(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "picture.html").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8)
    result = tutti(*tiny(data_dir, tmp_path))
    assert result.code == 1
    assert "binary" in result.err
    assert "Traceback" not in result.err


def test_a_missing_recipe_is_misuse(data_dir: Path) -> None:
    result = tutti("run", "no-such-recipe.yaml", "--data-dir", data_dir)
    assert result.code == 2
    assert "no-such-recipe.yaml" in result.err


def test_nobody_serves_a_data_directory(tmp_path: Path) -> None:
    result = tutti("jobs", "ls", "--data-dir", tmp_path)
    assert result.code == 3
    assert "tutti up" in result.err


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    result = tutti("run", TINY, "--data-dir", taken)
    assert result.code == 2
    assert "taken" in result.err


def test_help_teaches_and_version_is_one_line() -> None:
    assert "tutti run recipes/tiny.yaml" in tutti("--help").out
    assert len(tutti("version").out.splitlines()) == 1
