"""The unit for systemd: accepted by `systemd-analyze`, and its command is one of `tutti`."""

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, TUTTI
from tutti.chassis.config.exits import MISUSE
from tutti.cli.app import build

UNIT = ROOT / "deploy" / "systemd" / "tutti.service"
INSTALLED = "/opt/tutti/.venv/bin/tutti"


def test_the_unit_starts_the_platform_of_its_state_directory() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    program, verb, *options = shlex.split(service["ExecStart"])
    command = build().commands[verb]
    given = command.make_context("up", options).params
    assert (program, given["data_dir"]) == (INSTALLED, Path("/var/lib") / service["StateDirectory"])
    assert service["RestartPreventExitStatus"] == str(MISUSE)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    here = tmp_path / UNIT.name
    here.write_text(UNIT.read_text().replace(INSTALLED, TUTTI))
    done = subprocess.run(["systemd-analyze", "verify", here], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
