"""Locks: what installs and builds everything else is pinned by hash, like everything else."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PINNED = re.compile(r"^([a-z0-9-]+)==\S+( ; [^\\]*)?( \\\n    --hash=sha256:[0-9a-f]{64})+$", re.MULTILINE)


def test_the_installer_and_the_build_backend_are_pinned_by_hash() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["build-system"]["requires"], *project["dependency-groups"]["build"]]
    text = (ROOT / "requirements-build.lock").read_text()
    pinned = {found[1] for found in PINNED.finditer(text)}
    assert {re.split(r"[<>=~]", each)[0] for each in wanted} <= pinned
    assert len(pinned) == len(re.findall(r"^\S", text, re.MULTILINE))


@pytest.mark.parametrize("name", ["Makefile", "deploy/docker/Dockerfile"])
def test_nothing_is_built_and_no_installer_is_installed_without_hashes(name: str) -> None:
    text = re.sub(r"\\\n", " ", (ROOT / name).read_text())
    commands = [part for line in text.splitlines() for part in re.split(r"&&|;", line)]
    by_pip = [each for each in commands if re.search(r"uv/bin/pip install", each)]
    builds = [each for each in commands if re.search(r"\buv build\b|pip install .*-e \.", each)]
    assert by_pip
    assert builds
    assert all("--require-hashes" in each for each in by_pip)
    assert all("--build-constraints" in each and re.search(r"--require-(build-)?hashes", each) for each in builds)
