"""The small world to talk to: `make chat` runs the commands of this module.

Promises: each step is a command that people can type; what is done is reused, so the same command goes on after Ctrl-C,
and takes seconds once the model is there.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tutti.cli import INTERRUPTED

ROOT = Path(__file__).resolve().parents[1]
TUTTI = Path(sys.executable).with_name("tutti")
RECIPE, FILTER, NAME = "recipes/small-world.yaml", "datasets/smallworld/filter.yaml", "small-world"


class StepEnded(Exception):
    """A command ended with another code than 0."""

    def __init__(self, arguments: tuple[str, ...], code: int) -> None:
        super().__init__(f"`tutti {' '.join(arguments)}` ended with {code}; `make chat` goes on from there")
        self.code = code


def main() -> int:
    """Print where the model answers; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-dir", default=".tutti", help="of the platform; %(default)s")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of the recipe")
    given = parser.parse_args()
    where = ("--data-dir", given.data_dir)
    try:
        command("up", "--detach", *where)
        run = asked("run", RECIPE, *(part for each in given.set for part in ("--set", each)), *where)
        [released] = [each["resource"] for each in run["run"]["stages"] if each["kind"] == "release"]
        release = asked("releases", "show", released, *where)
        if release["standing"] != "active":
            print(f"the gate refused the model: `tutti releases show {released}` has the reasons", file=sys.stderr)
            return 1
        checkpoint = release["checkpoint"]
        name = name_of(checkpoint)
        for other in deployed(*where):
            if other != name:
                asked("deployments", "stop", f"deployments/{other}", *where)
        served = asked("serve", checkpoint, "--name", name, "--filter", FILTER, "--detach", *where)
        page = asked("open", "--chat", "--no-browser", *where)["url"]
    except StepEnded as ended:
        print(ended, file=sys.stderr)
        return ended.code
    except KeyboardInterrupt:
        print("interrupted; what is done is kept, and `make chat` goes on", file=sys.stderr)
        return INTERRUPTED
    print(f"chat page   {page}")
    print(f"base URL    {served['base_url']}")
    print(f"model       {served['model']}, {served['release']}")
    print("`tutti open --chat` prints another link, `tutti down` stops the platform", file=sys.stderr)
    return 0


def name_of(checkpoint: str) -> str:
    """The name of the deployment of a checkpoint behind the filter: another one of either has another name."""
    decisive = checkpoint.encode() + (ROOT / FILTER).read_bytes()
    return f"{NAME}-{hashlib.sha256(decisive).hexdigest()[:6]}"


def deployed(*where: str) -> list[str]:
    """The names of the deployments of small worlds that have not ended. Raises StepEnded."""
    names = {each["name"].removeprefix("deployments/"): each["state"] for each in asked("deployments", "ls", *where)}
    return [name for name, state in names.items() if name.startswith(NAME) and state not in ("stopped", "failed")]


def command(*arguments: str) -> None:
    """Run a command that prints for people. Raises StepEnded."""
    if code := subprocess.run([TUTTI, *arguments], cwd=ROOT, check=False).returncode:
        raise StepEnded(arguments, code)


def asked(*arguments: str) -> Any:
    """The JSON that a command prints; its progress goes to the terminal. Raises StepEnded."""
    done = subprocess.run([TUTTI, *arguments, "-o", "json"], cwd=ROOT, stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode:
        raise StepEnded(arguments, done.returncode)
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
