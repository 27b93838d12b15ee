"""Digests of images: recorded where a registry answers, in a file that Docker Compose reads, and used everywhere."""

import os
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from tools.manifests.parts import resolved

ROOT = Path(__file__).resolve().parents[2]
DIGEST = "sha256:" + "ab" * 32
DOCKER = f"""#!/bin/sh
case "$*" in
*grafana*) echo 'no registry answers' >&2; exit 1;;
*jaeger*) ;;
pull*) ;;
*) for image do :; done; echo "mirror/${{image%:*}}@sha256:00"; echo "${{image%:*}}@{DIGEST}";;
esac
"""
"""A client of an engine: one registry does not answer, and one image was built here."""


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, in a clone with that client."""
    for name in ("docker-compose.yml", "deploy/docker/Dockerfile"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(DOCKER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.syspath_prepend(str(ROOT / "deploy" / "docker"))
    import digests

    monkeypatch.setattr(digests, "ROOT", tmp_path)
    return digests


def test_what_registries_answer_is_recorded_and_other_lines_stay(digests: ModuleType, tmp_path: Path) -> None:
    old = "TUTTI_GRAFANA_DIGEST=@sha256:cd"
    (tmp_path / ".env").write_text(f"TUTTI_PORT=7700\nTUTTI_KAFKA_DIGEST=@sha256:cd\n{old}\n")
    assert digests.main() == 1  # two are not recorded
    pinned = [f"{name}=@{DIGEST}" for name in digests.images() if "GRAFANA" not in name and "JAEGER" not in name]
    assert (tmp_path / ".env").read_text().splitlines() == ["TUTTI_PORT=7700", old, *pinned]


def test_each_image_that_is_named_with_a_tag_has_a_variable_that_is_empty_by_default(digests: ModuleType) -> None:
    composed = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    public = {image for each in composed if not (image := resolved(each["image"])).startswith("tutti/")}
    text = (ROOT / "deploy/docker/Dockerfile").read_text()
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE))
    bases = {base for base in re.findall(r"^FROM (\S+)", text, re.MULTILINE) if base not in stages}
    assert bases == {"${PYTHON}${PYTHON_DIGEST}"}
    assert set(digests.images().values()) == {*public, "python:3.11-slim-bookworm"}
