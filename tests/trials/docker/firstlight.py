"""First light on containers: the site of the profile `example` is crawled and trained on, with the embedded digests."""

import json
import tempfile
import time
from pathlib import Path

from tools.exhibit_site import HOST, Site, serving

from tests.trials.docker.engine import TrialError, command
from tests.trials.docker.project import ROOT, TUTTI, Project

RECIPE = ROOT / "recipes" / "first-light.yaml"
SECONDS = 1800.0
FOLDER = "/var/lib/tutti/exhibit"
"""Where the container `site` has its pages, below the version of its Python."""


def first_light(project: Project, steps: int) -> None:
    """The states of `steps` steps are those of the embedded platform over the same pages. Raises TrialError."""
    began = time.monotonic()
    project.compose("--profile", "example", "up", "-d", "--wait", "--no-recreate", "site", seconds=300)
    sets = [f"train.steps={steps}", f"train.checkpoint_every={max(1, steps // 4)}"]
    done = project.tutti("run", str(RECIPE), *_sets("input.crawl.allow_private=true", *sets), seconds=SECONDS)
    if done.returncode != 0:
        raise TrialError(f"tutti run {RECIPE.name} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    mine = _states(done.stdout)
    print(f"{RECIPE.name} with {steps} steps: {time.monotonic() - began:.0f} s through the front door", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        project.engine.run("cp", f"{project.container('site')}:{FOLDER}", folder)
        (pages,) = Path(folder).glob("exhibit/*/pages")
        with serving(Site(pages)) as address:
            where = ["--data-dir", str(Path(folder) / "data")]
            words: list[str | Path] = [
                TUTTI,
                "run",
                RECIPE,
                *_sets(f"input.crawl.connect.{HOST}={address}", *sets),
                *where,
            ]
            theirs = _states(command(words, seconds=SECONDS))
    if mine != theirs:
        raise TrialError(f"first light on containers has the states {mine}, embedded {theirs}")
    print(f"{len(mine)} checkpoints of {RECIPE.name} have the digests of the embedded platform", flush=True)


def _sets(*overrides: str) -> list[str]:
    return [*(word for each in overrides for word in ("--set", each)), "-o", "json"]


def _states(printed: str) -> dict[int, str]:
    """The state digest of each checkpoint by its step, from the summary of a run."""
    return {each["step"]: each["state_digest"] for each in json.loads(printed)["checkpoints"]}
