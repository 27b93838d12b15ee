"""Runs clients of others against a served checkpoint, each in a virtual environment of its own (`make clients`).

A client that cannot be installed here is named and left out; at least one has to run.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.chat.platforms import CHAT_BUILDS
from tests.chat.service_test import World
from tests.web.hosted import hosted

ROOT = Path(__file__).resolve().parents[3]
CLIENTS = ROOT / "build" / "clients"
UV = ROOT / ".venv" / "uv" / "bin" / "uv"
SECONDS = 1800.0
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
EXAMPLES = 10
LIMITS = ("access.answer_tokens_per_minute=100000000", "access.answers_per_minute=1000000")


def installed(name: str) -> Path | None:
    """The programs of the group `clients-NAME`; None where it cannot be installed."""
    home = CLIENTS / name
    python = f"{home / 'bin' / 'python'}"
    for given in (
        ["venv", "--quiet", "--allow-existing", "--python", sys.executable, f"{home}"],
        ["pip", "install", "--quiet", "--python", python, "--group", f"clients-{name}"],
    ):
        if subprocess.run([f"{UV}", *given], cwd=ROOT, timeout=SECONDS, check=False).returncode:
            print(f"{name}: it could not be installed here, and was not run", file=sys.stderr)
            return None
    return home / "bin"


def main() -> None:
    homes = {name: home for name in ("openai2", "schemathesis") if (home := installed(name))}
    failed = list[str]()
    with tempfile.TemporaryDirectory() as folder, hosted(Path(folder), *LIMITS, builds=CHAT_BUILDS) as served:
        world = World(served)
        [address, token] = [world.programs[0].address, world.tokens[0]]
        commands: dict[str, list[str]] = {
            "openai2": ["python", f"{Path(__file__).with_name('openai_client.py')}", f"http://{address}/v1", token],
            "schemathesis": [
                *("schemathesis", "run", f"http://{address}/openapi.json", "--checks", CHECKS, "--no-color"),
                *("--header", f"Authorization: Bearer {token}", "--max-examples", f"{EXAMPLES}", "--seed", "1"),
                *("--phases", "examples,coverage,fuzzing", "--request-timeout", "120"),
            ],
        }
        for name, home in homes.items():
            program, *given = commands[name]
            if subprocess.run([f"{home / program}", *given], cwd=folder, timeout=SECONDS, check=False).returncode:
                failed.append(name)
    if failed or not homes:
        sys.exit(f"clients that failed: {', '.join(failed) or 'none ran'}")


if __name__ == "__main__":
    main()
