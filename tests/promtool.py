"""Prometheus of this machine and its promtool, installed where that can be done without asking."""

import os
import shutil
import subprocess

from tests.lacking import lacking

HINT = "this tests the alert rules, and needs Prometheus: apt-get install prometheus"


def promtool() -> str:
    """The program; skips the test where there is none."""
    return program("promtool")


def program(name: str) -> str:
    """`promtool` or `prometheus`; skips the test where there is none."""
    found = shutil.which(name)
    if found is None and os.getuid() == 0 and shutil.which("apt-get"):
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "prometheus"]):
            subprocess.run(["apt-get", *command], check=False, timeout=300, capture_output=True)
        found = shutil.which(name)
    if found is None:
        lacking(HINT)
    return found
