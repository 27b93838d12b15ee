"""What reading a folder takes of memory, in a process of its own.

Run as `python -m tests.corpora.peak SMALL LARGE`: prints how many megabytes more were resident at most while LARGE was
read than after SMALL was, and what became of the files of LARGE, as JSON.
"""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.resident import peak_megabytes

from tutti.ingest.reading.shards import MAX_FILE_BYTES, Reading, write_shards


def read(folder: Path) -> tuple[int, dict[str, str]]:
    """How many documents came of a folder, and why what was left out was."""
    with tempfile.TemporaryDirectory() as scratch:
        found = write_shards(Reading(folder, MAX_FILE_BYTES, 0), Path(scratch))
        rejections = json.loads(found.rejections.path.read_bytes())
        return found.documents, {each["path"]: each["reason"] for each in rejections}


def forget_peak() -> None:
    """From here on the peak is counted anew (proc(5))."""
    Path("/proc/self/clear_refs").write_text("5")


def main(small: Path, large: Path) -> None:
    read(small)
    forget_peak()
    before = peak_megabytes()
    documents, rejected = read(large)
    json.dump({"megabytes": peak_megabytes() - before, "documents": documents, "rejected": rejected}, sys.stdout)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
