"""One build of an index in a process of its own: `python -m benchmarks.span_run MEMORY_BYTES TARGET SHARD...`.

Promises: prints as JSON the seconds on the core and on the wall, from the first file opened to the index on the disk,
and the most megabytes that were resident at once.
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.resident import peak_megabytes
from tutti.corpus.spans.building import build


def main() -> None:
    memory_bytes, target, *shards = sys.argv[1:]
    core, wall = time.process_time(), time.perf_counter()
    build([Path(shard) for shard in shards], Path(target), memory_bytes=int(memory_bytes))
    print(
        json.dumps(
            {
                "core": time.process_time() - core,
                "wall": time.perf_counter() - wall,
                "megabytes": peak_megabytes(),
            }
        )
    )


if __name__ == "__main__":
    main()
