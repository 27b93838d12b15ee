"""One dedup of a corpus in a process of its own: `python -m benchmarks.near_run CORES SCRATCH SHARD...`.

Promises: does what the service has done in its pool, exact duplicates and near ones, by so many cores; prints as JSON
the file that it wrote, how many documents stay and go, the seconds on the core and on the wall, from the first file
opened to the last row written, and the most megabytes that were resident at once.
"""

import json
import os
import sys
import time
from pathlib import Path

from benchmarks.resident import peak_megabytes
from tutti.dedup.clusters import find
from tutti.dedup.near import THRESHOLD
from tutti.dedup.shards import Texts


def main() -> None:
    cores, scratch, *shards = int(sys.argv[1]), *map(Path, sys.argv[2:])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    core, wall = time.process_time(), time.perf_counter()
    found = find(Texts(tuple(shards)), THRESHOLD, scratch)
    print(
        json.dumps(
            {
                "path": str(found.path),
                "documents": found.documents,
                "duplicates": found.duplicates,
                "core": time.process_time() - core,
                "wall": time.perf_counter() - wall,
                "megabytes": peak_megabytes(),
            }
        )
    )


if __name__ == "__main__":
    main()
