"""Agents as processes of their own, beside the one of a platform."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.command import environment, tutti
from tests.faults.processes import until
from tutti.chassis.config.datadir import tokens_in
from tutti.chassis.identity.auth import Role


def test_a_second_agent_with_the_name_of_a_node_stops_and_names_the_first(served: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "data" / "tokens"
    tokens.parent.mkdir(mode=0o700)
    tokens.touch(mode=0o600)
    tokens.write_text((served / "tokens").read_text())
    address = (served / "endpoint").read_text().strip()
    sets = [f"services.{name}={address}" for name in ("scheduler", "committer", "sampling")]
    command = [sys.executable, "-m", "tutti.trainer", "--data-dir", str(tokens.parent), "--node", "a"]
    for each in (*sets, f"blobs.url=file://{tmp_path}/blobs"):
        command += ["--set", each]
    until(lambda: "ready" in tutti("nodes", "ls", "--data-dir", served).out, seconds=30, what="the first agent")
    shell = environment({"TUTTI_TOKEN": tokens_in(served).of(Role.OPERATOR)})  # of a person, and not for the agent
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=shell)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("tutti: nodes/a is served by another agent, at 127.0.0.1, with the state folder "), last
    assert "ready" in tutti("nodes", "ls", "--data-dir", served).out
