"""A rolling restart: every replica of every service, one after another.

Promises: a replica is told to drain (SIGTERM), and the next one only once its successor serves; one that does not come
back is named.
"""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from processes import ServerError, wait_until
from roster import Kept, kept

from tutti.chassis.config.settings import installed_services

BACK_SECONDS = 90.0


def rolled(data_dir: Path, only: Sequence[str] = ()) -> Iterator[tuple[str, float]]:
    """Restart the replicas of `only` these services, or of all; each with the seconds until it served again.

    Raises ServerError.
    """
    services = set(only) or set(installed_services())
    for each in kept(data_dir):
        if each.name.partition("-")[0] in services:
            yield each.name, _restarted(data_dir, each)


def _restarted(data_dir: Path, former: Kept) -> float:
    began = time.monotonic()
    os.kill(former.pid, signal.SIGTERM)

    def serves() -> bool:
        now = next(each for each in kept(data_dir) if each.name == former.name)
        return now.pid not in (0, former.pid) and (data_dir / "endpoints" / former.name).exists()

    if not wait_until(serves, BACK_SECONDS):
        raise ServerError(f"{former.name} did not come back within {BACK_SECONDS:.0f} s; look into {data_dir / 'logs'}")
    return time.monotonic() - began
