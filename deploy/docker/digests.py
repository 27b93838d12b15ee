"""Record the digests of the images of others in `.env`, which Docker Compose reads: later starts take no other content.

    python deploy/docker/digests.py

Promises: asks the registry by `docker pull` for each tag of `docker-compose.yml` and of the Dockerfile; other lines of
the file stay; an image whose registry does not answer keeps the digest that it had, is named, and makes the exit code
1. Needs no package.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PULL_SECONDS, LOOK_SECONDS = 900, 60
IMAGE = re.compile(r"^\s*image: (\S+)\$\{(TUTTI_\w+_DIGEST):-\}$", re.MULTILINE)
BASE = re.compile(r"^ARG (\w+)=(\S+:\S+)\nARG \1_DIGEST=$", re.MULTILINE)
LINE = re.compile(r"(TUTTI_\w+_DIGEST)=")


def images() -> dict[str, str]:
    """The images with their tags, by the variable of the digest."""
    bases = BASE.findall((ROOT / "deploy" / "docker" / "Dockerfile").read_text())
    named = IMAGE.findall((ROOT / "docker-compose.yml").read_text())
    return {f"TUTTI_{name}_DIGEST": image for name, image in bases} | {variable: image for image, variable in named}


def digest(image: str) -> str:
    """The digest that a registry has for a tag, as `@sha256:...`. Raises OSError and SubprocessError."""
    docker("pull", "--quiet", image, seconds=PULL_SECONDS)
    form = "{{range .RepoDigests}}{{println .}}{{end}}"
    found = docker("image", "inspect", "--format", form, image, seconds=LOOK_SECONDS)
    repository = image.rpartition(":")[0]
    for line in found.split():
        name, _, content = line.partition("@")
        if name == repository and re.fullmatch(r"sha256:[0-9a-f]{64}", content):
            return f"@{content}"
    raise OSError(f"the engine knows no digest of {image}, as of an image that was built here: {found.strip()!r}")


def docker(*arguments: str, seconds: float) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=seconds, check=True).stdout


def recorded(before: str, found: Mapping[str, str]) -> str:
    """The text of the file with these digests."""
    kept = [line for line in before.splitlines() if not ((seen := LINE.match(line)) and seen[1] in found)]
    return "".join(f"{line}\n" for line in [*kept, *(f"{name}={content}" for name, content in found.items())])


def main() -> int:
    found, failed = dict[str, str](), list[str]()
    for variable, image in images().items():
        try:
            found[variable] = digest(image)
            print(f"{image}{found[variable]}")
        except (OSError, subprocess.SubprocessError) as error:
            words = (getattr(error, "stderr", None) or str(error)).strip()
            failed.append(f"{image} is not recorded: {words}")
    file, new = ROOT / ".env", ROOT / ".env.new"
    new.write_text(recorded(file.read_text() if file.exists() else "", found))
    os.replace(new, file)
    print("\n".join(failed), file=sys.stderr, end="\n" if failed else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
