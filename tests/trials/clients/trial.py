"""Runs clients of others against a served checkpoint, each in a folder of its own (`make clients`).

A client that cannot be installed here is named and left out; at least one has to run.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chat.platforms import CHAT_BUILDS
from tests.chat.service_test import World
from tests.web.hosted import hosted

ROOT, HERE = Path(__file__).resolve().parents[3], Path(__file__).resolve().parent
HOMES = ROOT / "build" / "clients"
UV = ROOT / ".venv" / "uv" / "bin" / "uv"
SECONDS = 1800.0
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
EXAMPLES = 10
LIMITS = ("access.answer_tokens_per_minute=100000000", "access.answers_per_minute=1000000")
Command = Sequence[str | Path]


def python_packages(name: str) -> list[Command]:
    """Install the group `clients-NAME` of pyproject.toml into a virtual environment."""
    home = HOMES / name
    return [
        [UV, "venv", "--quiet", "--allow-existing", "--python", sys.executable, home],
        [UV, "pip", "install", "--quiet", "--python", home / "bin" / "python", "--group", f"clients-{name}"],
    ]


def node_packages(name: str) -> list[Command]:
    """Install the lock of the folder NAME beside this file into a copy of it."""
    shutil.copytree(HERE / name, HOMES / name, dirs_exist_ok=True)
    return [["npm", "ci", "--prefix", HOMES / name, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]]


@dataclass(frozen=True)
class Client:
    """`installing` returns the commands that install it into its home, the folder of its name in `build/clients`.

    `command` runs it there against the server at an address, with the token of a user.
    """

    name: str
    installing: Callable[[str], list[Command]]
    command: Callable[[str, str], Command]

    def install(self) -> bool:
        """False where it cannot be installed."""
        try:
            for command in self.installing(self.name):
                subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=SECONDS, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{self.name}: it could not be installed here, and was not run: {error}", file=sys.stderr)
            return False
        return True

    def run(self, address: str, token: str) -> bool:
        """True if it found nothing wrong."""
        command = self.command(address, token)
        return not subprocess.run(command, cwd=HOMES / self.name, timeout=SECONDS, check=False).returncode


CLIENTS = [
    Client(
        "openai2",
        python_packages,
        lambda address, token: ["bin/python", HERE / "openai_client.py", f"http://{address}/v1", token],
    ),
    Client(
        "ai",
        node_packages,  # with the Node that it needs, where npm has one for this machine
        lambda address, token: ["npm", "exec", "--offline", "--", "node", "client.mjs", f"http://{address}/v1", token],
    ),
    Client(
        "lm-eval",
        python_packages,
        lambda address, token: ["bin/python", HERE / "lm_eval_client.py", f"http://{address}/v1", token],
    ),
    Client(
        "schemathesis",
        python_packages,
        lambda address, token: [
            *("bin/schemathesis", "run", f"http://{address}/openapi.json", "--checks", CHECKS, "--no-color"),
            *("--header", f"Authorization: Bearer {token}", "--max-examples", f"{EXAMPLES}", "--seed", "1"),
            *("--phases", "examples,coverage,fuzzing", "--request-timeout", "120"),
        ],
    ),
]


def main() -> None:
    installed = [each for each in CLIENTS if each.install()]
    with tempfile.TemporaryDirectory() as folder, hosted(Path(folder), *LIMITS, builds=CHAT_BUILDS) as served:
        world = World(served)
        address, token = world.programs[0].address, world.tokens[0]
        failed = [each.name for each in installed if not each.run(address, token)]
    if failed or not installed:
        sys.exit(f"clients that failed: {', '.join(failed) or 'none ran'}")


if __name__ == "__main__":
    main()
