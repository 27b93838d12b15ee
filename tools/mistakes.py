"""The page of mistakes: what `tutti` answers to each, run for real: `python tools/mistakes.py` writes it.

Promises: each command is run as it is shown, beside a platform without agents or in an empty folder; every answer is
one line, and its exit code is not 0. `--check` writes nothing and fails when the page is not what this tree answers.
"""

import argparse
import contextlib
import io
import os
import re
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.e2e.command import platform  # noqa: E402

from tutti.cli.app import build  # noqa: E402
from tutti.cli.failures import guarded  # noqa: E402

PAGE = ROOT / "docs" / "mistakes.md"
HEAD = """# Common mistakes and their error messages

Every error is one line on standard error: the actual value, the expected value, and what to do. Exit codes: 1 failure,
2 wrong usage, 3 platform not reachable. For a full disk, see [When the disk is
full](operations/disaster.md#when-the-disk-is-full). `tools/mistakes.py` generates this page from the output of the
commands, and a test compares them.
"""
FILES = {
    "good.yaml": "name: good\nsize: tiny\ninput: {path: texts}\ntrain: {steps: 20, ranks: 2, microbatches: 8}\n",
    "empty.yaml": "",
    "broken.yaml": "input: [texts\n",
    "texts/a.txt": "The quick brown fox jumps over the lazy dog. " * 40,
    "newer/version": "99\n",
    "misspelt/tutti.toml": '[rpc]\nlissten = "127.0.0.1:0"\n',
    "beyond/tutti.toml": '[web]\nlisten = "0.0.0.0:0"\n',
    "secret/tutti.toml": '[database]\nurl = "postgresql://tutti:any@127.0.0.1:1/tutti"\n',
    "shared/a.txt": "not ours",
}
SERVED = {
    "An unknown command": "tutti rnu good.yaml",
    "An unknown verb": "tutti runs lst",
    "A verb of another tool": "tutti train good.yaml",
    "A key without --set": "tutti run good.yaml train.steps=5 train.ranks=1",
    "A run to resume": "tutti resume good.yaml",
    "A list without a noun": "tutti ls",
    "A run to stop": "tutti kill runs/nosuch",
    "Text to generate": "tutti generate --prompt Once",
    "A server to start": "tutti start",
    "A recipe to create": "tutti init --data texts",
    "A recipe to check": "tutti validate good.yaml",
    "Values of a key to try": "tutti tune good.yaml",
    "Values of a key without --set": "tutti sweep good.yaml train.learning_rate=1e-3,3e-3",
    "A sweep of one value": "tutti sweep good.yaml --set train.steps=5",
    "A wrong value in a sweep": "tutti sweep good.yaml --set train.steps=5,many",
    "Runs to compare": "tutti diff first second",
    "A run to put away": "tutti archive first",
    "A run to delete": "tutti rm first",
    "A run to delete, as a verb of runs": "tutti runs delete first",
    "Runs to prune": "tutti runs prune --archived --keep-last 1",
    "A resource to look at": "tutti info first",
    "A run to tag": "tutti tag first --add fast",
    "A run to rename": "tutti rename first best",
    "Runs to put away, without saying which": "tutti runs archive",
    "A run to put away that does not exist": "tutti runs archive nosuch",
    "A tag that is none": "tutti runs ls --tag 'two words'",
    "A missing name": "tutti jobs cancel",
    "A missing recipe": "tutti run goood.yaml",
    "A folder instead of a recipe": "tutti run texts",
    "A file of texts instead of a recipe": "tutti run texts/a.txt",
    "A URL instead of a recipe": "tutti run https://docs.example/guide/",
    "A folder to check": "tutti recipes check texts",
    "An empty recipe": "tutti run empty.yaml",
    "A recipe that is not YAML": "tutti run broken.yaml",
    "An unknown key": "tutti run good.yaml --set train.stepps=3",
    "A learning rate as elsewhere": "tutti run good.yaml --set lr=0.001",
    "A batch size as elsewhere": "tutti run good.yaml --set train.batch_size=8",
    "Epochs of pretraining": "tutti run good.yaml --set epochs=3",
    "Steps as elsewhere": "tutti run good.yaml --set max_steps=100",
    "Warmup as elsewhere": "tutti run good.yaml --set warmup_steps=10",
    "Microbatches as elsewhere": "tutti run good.yaml --set gradient_accumulation_steps=4",
    "GPUs as a key": "tutti run good.yaml --set num_gpus=2",
    "A device as a key": "tutti run good.yaml --set device=cuda",
    "A type as a key": "tutti run good.yaml --set train.precision=bf16",
    "A context as elsewhere": "tutti run good.yaml --set block_size=128",
    "A vocabulary as elsewhere": "tutti run good.yaml --set vocab_size=4096",
    "Layers as elsewhere": "tutti run good.yaml --set n_layers=4",
    "A size as elsewhere": "tutti run good.yaml --set model_size=tiny",
    "Checkpoints as elsewhere": "tutti run good.yaml --set save_steps=10",
    "A key of nothing": "tutti run good.yaml --set zzz=1",
    "A key without its part": "tutti run good.yaml --set steps=3",
    "A stage that cannot be left out": "tutti run good.yaml --set quality=null",
    "A stage that the recipe does not have": "tutti run good.yaml --set stages.tuned=null",
    "A value of the wrong type": "tutti run good.yaml --set train.steps=many",
    "An invalid combination of values": "tutti run good.yaml --set train.ranks=9",
    "An override without a value": "tutti run good.yaml --set train.steps",
    "A missing folder": "tutti run good.yaml --set input.path=txets",
    "A folder without pages": "tutti run --data nothing",
    "Missing data": "tutti run --data txets",
    "Two sources": "tutti run good.yaml --data texts",
    "A site that is not a URL": "tutti run --site docs.example",
    "A site without a contact": "tutti run --site https://docs.example/",
    "A run that does not exist": "tutti runs show nosuch",
    "A job that does not exist": "tutti jobs show jobs/nosuch",
    "Pruning a job that does not exist": "tutti checkpoints prune nosuch",
    "A filter by a job that does not exist": "tutti checkpoints ls --filter job=nosuch",
    "A filter by an unknown field": "tutti checkpoints ls --filter jbo=x",
    "A sample before the first checkpoint": 'tutti sample --prompt "The"',
    "A sample of a checkpoint that does not exist": "tutti sample checkpoints/nosuch/0/5",
    "A text instead of a checkpoint": 'tutti sample "Once upon a time"',
    "Logs of an invalid resource name": "tutti logs nosuch",
    "A trace of a page that was never read": "tutti trace nosuch.html",
    "Events of an unknown service": "tutti events tail nosuch",
    "Two platforms in one directory": "tutti up",
    "A port that is in use": "tutti up --data-dir other --port PORT",
}
ALONE = {
    "The wrong directory": "tutti runs ls",
    "A stopped platform to sample from": 'tutti sample --prompt "The"',
    "A run to detach from": "tutti run good.yaml --detach",
    "Nothing to stop": "tutti down --data-dir elsewhere",
    "An address without a platform": "tutti runs ls --address 127.0.0.1:1",
    "A file as the data directory": "tutti run good.yaml --data-dir good.yaml",
    "A data directory of a newer version": "tutti up --data-dir newer",
    "A data directory that cannot be created": "tutti up --data-dir /proc/tutti",
    "A data directory that others may use": "tutti up --data-dir shared",
    "A misspelt setting": "tutti up --data-dir misspelt",
    "Web pages for other machines without TLS": "tutti up --data-dir beyond",
    "A file with a secret that others may read": "tutti up --data-dir secret",
}


PLACES = (
    (r"127\.0\.0\.1:\d{2,}", "127.0.0.1:PORT"),
    (r"process \d+", "process N"),
    (r"since 20[\dT:+.-]*\d", "since TIME"),
)


@dataclass(frozen=True)
class Answer:
    mistake: str
    command: str
    code: int
    line: str


def answers(served: Path, folder: Path) -> Iterator[Answer]:
    """Make every mistake in a new folder, beside the platform of `served`, then beside none."""
    (folder / "nothing").mkdir()
    port = (served / "endpoint").read_text().strip().rpartition(":")[2]
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).parent.chmod(0o755 if name.startswith("shared/") else 0o700)
    for commands, data_dir in ((SERVED, served), (ALONE, folder / ".tutti")):
        for mistake, command in commands.items():
            code, line = answered(shlex.split(command.replace("PORT", port))[1:], folder, data_dir)
            yield Answer(mistake, command, code, hidden(line, served, folder))


def answered(arguments: Sequence[str], folder: Path, data_dir: Path) -> tuple[int, str]:
    """Run a command in this process; its exit code and what it said."""
    before, here = dict(os.environ), Path.cwd()
    os.environ |= {"TUTTI_DATA_DIR": str(data_dir), "TUTTI_TOKEN": "any"}
    if data_dir.exists():
        del os.environ["TUTTI_TOKEN"]
    os.chdir(folder)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            guarded(lambda: build()(list(arguments), prog_name="tutti", standalone_mode=False))
    except SystemExit as ended:
        return int(ended.code or 0), said.getvalue()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.chdir(here)
        os.environ.clear()
        os.environ |= before
    raise AssertionError("guarded returns only by an exit")


def hidden(line: str, served: Path, folder: Path) -> str:
    """A line without the places of this machine."""
    for place, name in ((str(served), ".tutti"), (str(folder), "/work")):
        line = line.replace(place, name)
    line = next((each for each in line.splitlines() if each.startswith("tutti: ")), line.strip())
    for pattern, name in PLACES:
        line = re.sub(pattern, name, line)
    return line.removeprefix("tutti: ").strip()


def page(found: Sequence[Answer]) -> str:
    rows = [f"| {each.mistake} | `{each.command}` | {escaped(each.line)} |" for each in found]
    return "\n".join([HEAD, "| mistake | command | first line of the error |", "|---|---|---|", *rows, ""])


def escaped(line: str) -> str:
    return line.splitlines()[0].replace("|", "\\|").replace("<", "&lt;")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as made, platform(served := Path(made).resolve() / "served", agents=0):
        folder = served.with_name("work")
        folder.mkdir()
        text = page(list(answers(served, folder)))
    if not check:
        PAGE.write_text(text)
        return 0
    return int(PAGE.read_text() != text)


if __name__ == "__main__":
    sys.exit(main())
