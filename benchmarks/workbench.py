"""The list of runs: the time that the server takes for a page, by the number of runs.

`python -m benchmarks.workbench [RUNS]` prints the milliseconds of pages in several orders, over HTTP on this machine,
and of the check whether a page has changed. The runs have whole recipes and five stages. CPU time is that of the server
and the client together, so it is right on a busy machine too.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.web.hosted import Visitor, hosted

ROUNDS = 15
PAGES = {
    "newest first": "/runs",
    "best first": "/runs?sort=bits_per_byte",
    "last page by title": "/runs?sort=title&page=9999",
    "searched": "/runs?q=sweep+3&state=done&sort=-loss",
    "as JSON": "/runs.json?sort=bits_per_byte",
}


def milliseconds(work: Callable[[], object]) -> str:
    """The median, the largest and the CPU time of some calls, after one that is not counted."""
    work()
    found, cpu = list[float](), time.process_time()
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        found.append(1000 * (time.perf_counter() - began))
    mean = 1000 * (time.process_time() - cpu) / ROUNDS
    return f"{statistics.median(found):8.1f} {max(found):8.1f} {mean:8.1f}"


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as path, hosted(Path(path)) as served:
        served.plant_sweep(count)
        visitor = Visitor(served.url)
        visitor.log_in(served.link())
        print(f"{count:,} runs; milliseconds of {ROUNDS} pages: median, largest, mean of CPU time")
        for name, page in PAGES.items():
            assert visitor.get(page).status == 200
            print(f"{name:20}", milliseconds(partial(visitor.get, page)))
        pipeline = served.running("pipeline")
        (runs,) = pipeline.service.resources
        print(f"{'has it changed':20}", milliseconds(partial(pipeline.host.units.run, runs.changes)))


if __name__ == "__main__":
    main()
