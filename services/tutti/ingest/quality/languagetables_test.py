"""The kept tables: the same as unpacked ones, shared, and made anew when they cannot be used."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tutti.ingest.quality import languagemodel, languagetables
from tutti.ingest.quality.languagetables import Model, model, unpacked

SPEC = find_spec("py3langid")
PACKED = Path(SPEC.origin or "").parent / languagemodel.PACKED if SPEC else Path()
ARRAYS = ("next", "row", "feature", "table", "prior")


@pytest.fixture(scope="module")
def whole() -> Model:
    return unpacked(PACKED)


@pytest.fixture
def quick(whole: Model, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was unpacked, without the time that it takes."""
    asked: list[Path] = []

    def unpack(packed: Path) -> Model:
        asked.append(packed)
        return whole

    monkeypatch.setattr(languagetables, "unpacked", unpack)
    return asked


def same(one: Model, other: Model) -> bool:
    arrays = [(getattr(one, name), getattr(other, name)) for name in ARRAYS]
    return one.codes == other.codes and all(
        a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b) for a, b in arrays
    )


def test_tables_are_unpacked_once_and_mapped_then(tmp_path: Path, whole: Model, quick: list[Path]) -> None:
    folder = tmp_path / "native"
    assert same(model(PACKED, folder), whole)
    (kept,) = folder.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    mapped = model(PACKED, folder)
    assert same(mapped, whole)
    assert mapped.alike == whole.alike
    assert not any(getattr(mapped, name).flags.owndata or getattr(mapped, name).flags.writeable for name in ARRAYS)
    assert (quick, list(folder.iterdir())) == ([PACKED], [kept])


@pytest.mark.parametrize("keep", [0, 100, 600, -1])
def test_a_file_that_is_cut_or_damaged_is_made_anew(tmp_path: Path, whole: Model, quick: list[Path], keep: int) -> None:
    model(PACKED, tmp_path / "native")
    (kept,) = (tmp_path / "native").iterdir()
    content = kept.read_bytes()
    kept.write_bytes(content[:keep])
    assert same(model(PACKED, tmp_path / "native"), whole)
    assert kept.read_bytes() == content
    assert len(quick) == 2


def test_another_model_is_another_file(tmp_path: Path, quick: list[Path]) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"other")
    model(PACKED, tmp_path / "native")
    model(other, tmp_path / "native")
    assert (len(quick), len(list((tmp_path / "native").iterdir()))) == (2, 2)


def test_without_a_folder_of_its_own_each_process_unpacks(tmp_path: Path, whole: Model, quick: list[Path]) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "file").write_bytes(b"")
    for folder in (None, tmp_path, tmp_path / "file" / "native"):
        assert model(PACKED, folder) is whole
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
