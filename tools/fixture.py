"""The data directory of a release, kept for the tests of later ones: `tests/e2e/releases/<version>.tar.xz`.

Promises: made by the `tutti` of this tree from a few pages of its own documentation and from the language of letters,
which goes through every stage of post-training, in a folder with a random name; holds no token, no log, no lock and
nothing that names the machine or its user; its canonical export stands beside it, so that a later version can be asked
whether it still sees the same.
"""

import argparse
import contextlib
import getpass
import html
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.letters import write

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "e2e" / "releases"
TUTTI = Path(sys.executable).parent / "tutti"
KEPT = ("version", "db", "log", "blobs")
TINY = ("input.path=pages", "train.steps=6", "train.checkpoint_every=3", "train.ranks=2")
SMALL = (
    "size=tiny",
    "train.steps=2",
    "stages.prompts.split.train=0.2",
    "stages.prompts.split.campaign=0.7",
    "stages.prompts.split.final=0.1",
    "stages.tuned.steps=4",
    "stages.judged.overlap.least=3",  # so that some judgements are left after two retractions
    "stages.reward.epochs=1",
    "stages.reward.length=32",  # of a model that has hardly learned, few answers end
    "stages.grpo.steps=2",
    "stages.grpo.prompts_per_step=4",
    "stages.grpo.group=2",
    "stages.dpo.epochs=1",
    "stages.grpo-release.win=0",  # so little training wins nothing: one gate lets everything through, the other nothing
    "stages.grpo-release.gap=1",
    "stages.dpo-release.win=0.99",
)
"""Settings that make recipes/assistant.yaml small."""
FEW = ("train.steps=1", "stages.tuned.steps=1", "stages.grpo.steps=1", "stages.reward.checkpoint_every=1000")
"""Even smaller: most of what is kept is checkpoints."""
RECIPES = {"tiny.yaml": TINY, "recipes/assistant.yaml": (*SMALL, *FEW)}


def write_pages(folder: Path) -> None:
    """The pages of docs/ as HTML, one paragraph a paragraph."""
    folder.mkdir()
    for source in sorted((ROOT / "docs").glob("*.md")):
        paragraphs = "".join(f"<p>{html.escape(part)}</p>\n" for part in source.read_text().split("\n\n"))
        head = f"<!doctype html><html><head><title>{source.stem}</title></head>"
        page = f"{head}<body><main>{paragraphs}</main></body></html>"
        (folder / f"{source.stem}.html").write_text(page)


def tutti(*arguments: str, cwd: Path) -> str:
    """The output of a command that must succeed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TUTTI_")}
    done = subprocess.run(
        [str(TUTTI), *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"tutti {' '.join(arguments)} failed:\n{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def platform(work: Path) -> Iterator[None]:
    """A platform that serves `work`/data and is stopped at the end."""
    process = subprocess.Popen([str(TUTTI), "up", "--data-dir", "data"], cwd=work, stdout=subprocess.DEVNULL)
    try:
        while not (work / "data" / "endpoint").exists():
            if process.poll() is not None:
                sys.exit("tutti up ended before it served")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(60)


def private(folder: Path, words: list[str]) -> list[str]:
    """What in the folder names this machine, its user or where it stood: `path: word`."""
    return [
        f"{path.relative_to(folder)}: {word}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for word in words
        if word.encode() in path.read_bytes()
    ]


def build(version: str, folder: Path, recipes: Sequence[str]) -> Path:
    """Run the recipes anew and keep its data directory in `folder`. Exits when it holds something private."""
    with tempfile.TemporaryDirectory(prefix="tutti-fixture-") as text:
        work = Path(text)
        write_pages(work / "pages")
        write(work / "build" / "letters", texts=12, demonstrations=80, prompts=80)
        shutil.copytree(ROOT / "datasets" / "letters", work / "datasets" / "letters")
        shutil.copytree(ROOT / "recipes", work / "recipes")
        shutil.copy(ROOT / "recipes" / "tiny.yaml", work)
        with platform(work):
            for recipe in recipes:
                overrides = [part for pair in RECIPES[recipe] for part in ("--set", pair)]
                tutti("run", recipe, "--data-dir", "data", *overrides, cwd=work)
            exported = tutti("export", "--canonical", "--data-dir", "data", cwd=work)
        kept = work / "kept"
        kept.mkdir()
        for name in KEPT:
            shutil.move(work / "data" / name, kept / name)
        found = private(kept, [f"{Path.home()}/", f"/{getpass.getuser()}/", f'"{socket.gethostname()}"'])
        if found:
            sys.exit("the data directory names this machine:\n  " + "\n  ".join(found))
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{version}.tar.xz"
        with tarfile.open(target, "w:xz") as archive:
            for path in sorted(kept.rglob("*")):
                archive.add(path, arcname=str(path.relative_to(kept)), recursive=False, filter=nobody)
        (folder / f"{version}.export.jsonl").write_text(exported)
        return target


def nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The member without owner and time."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    parser = argparse.ArgumentParser(description="Keep a data directory of this version for the tests of later ones.")
    parser.add_argument("version", help="the version that is released, for example 0.1.0")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--recipe", choices=RECIPES, action="append", help="run this recipe alone; may be repeated")
    arguments = parser.parse_args()
    target = build(arguments.version, arguments.folder.resolve(), arguments.recipe or [*RECIPES])
    print(f"wrote {target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
