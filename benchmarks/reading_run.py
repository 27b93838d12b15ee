"""One reading of an archive in a process of its own: `python -m benchmarks.reading_run WORKERS ARCHIVE SCRATCH [RAY]`.

Promises: prints as JSON the seconds on the wall from the begin of the process to the last shard on the disk, so that
what every process loads is counted for one as for several, those on the cores, the most megabytes that one of the
processes had resident at once, and the digests of the shards. With the head of a Ray cluster its nodes make the
documents, and their cores are not counted here.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path

from benchmarks.resident import peak_megabytes
from tutti.ingest.reading import shards


def main() -> None:
    workers, archive, scratch, *ray = sys.argv[1:]
    reading = shards.Reading(None, 50 << 20, 0, archives=(Path(archive),))
    written = shards.write_shards(reading, Path(scratch), int(workers), *ray)
    core = sum(os.times()[:4])  # of its children, too
    wall, digests = _age(), [each.info.content_digest for each in written.shards]
    largest = max(peak_megabytes(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6)
    print(json.dumps({"wall": wall, "core": core, "megabytes": largest, "digests": digests}))


def _age() -> float:
    """Seconds since this process was started (proc(5): field 22 of stat, in ticks since the machine was)."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


if __name__ == "__main__":
    main()
