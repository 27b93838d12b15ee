"""The rules of a hostile robots.txt, beside protego (the parser of Scrapy), which is in the dependency group `peers`.

CPU-seconds and peak memory for a group of many agents with many rules, in files of 32 and (not with --quick) 64 KiB. A
crawl reads up to 500 KiB.
"""

import subprocess
import sys
from pathlib import Path

from benchmarks.peers import HOW, PYTHON
from benchmarks.program import main, scratch
from benchmarks.table import Row


def group(size: int) -> str:
    """As many agents as fit in half of `size` bytes, and as many rules in the other half."""
    line = "user-agent:{:04x}\n"
    return "".join(map(line.format, range(size // 2 // len(line.format(0))))) + "allow:/\n" * (size // 16)


def measure(quick: bool) -> list[Row]:
    """Seconds and megabytes for each size."""
    sizes = (32,) if quick else (32, 64)
    return [row for size in sizes for row in _rows(f"robots.txt of {size} KiB", group(size << 10))]


def _rows(what: str, text: str) -> list[Row]:
    with scratch("robots") as folder:
        path = Path(folder) / "robots.txt"
        path.write_text(text)
        seconds, megabytes = _measured(sys.executable, "tutti", path)
        peer = _measured(PYTHON, "protego", path) if PYTHON.exists() else None
    note = "" if peer else HOW
    return [
        Row(what, unit="CPU-s", ours=seconds, peer=peer and peer[0], note=note),
        Row(f"{what}: memory", unit="MB", ours=megabytes, peer=peer and peer[1]),
    ]


def _measured(python: str | Path, parser: str, path: Path) -> tuple[float, float]:
    """CPU-seconds and peak megabytes of a process that parses the file."""
    command = [python, Path(__file__).with_name("robots_run.py"), parser, path]
    seconds, megabytes = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split()
    return float(seconds), float(megabytes)


if __name__ == "__main__":
    main("robots", __doc__, measure)
