"""One search for repeated lines in a process of its own: `python -m benchmarks.lines_run SCRATCH SHARD...`.

Promises: leaves the cuts in SCRATCH, and prints as JSON the seconds on the core and on the wall, from the first file
opened to the last row written, what was cut, and the most megabytes that were resident at once. One worker.
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.resident import peak_megabytes
from tutti.dedup.lines import LineLimits, find
from tutti.dedup.shards import Texts


def main() -> None:
    scratch, *shards = map(Path, sys.argv[1:])
    core, wall = time.process_time(), time.perf_counter()
    found = find(Texts(tuple(shards)), LineLimits(), scratch)
    seconds = {"core": time.process_time() - core, "wall": time.perf_counter() - wall}
    cut = {"documents": found.documents, "units": found.units, "bytes": found.bytes}
    print(json.dumps({**seconds, **cut, "megabytes": peak_megabytes()}))


if __name__ == "__main__":
    main()
