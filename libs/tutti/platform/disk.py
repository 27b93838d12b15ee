"""Gauges of the disk of a data directory, read when they are scraped: without SQL, since agents have them too."""

import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

log = logging.getLogger(__name__)


class Disk(Collector):
    """Size and free space; a disk that cannot be asked gives no numbers."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def collect(self) -> Iterable[GaugeMetricFamily]:
        try:
            usage = shutil.disk_usage(self._data_dir)
        except OSError as error:
            log.warning("the disk of %s has no metrics: %s", self._data_dir, error)
            return
        yield GaugeMetricFamily("data_disk_size_bytes", "Size of the disk of the data directory", usage.total)
        yield GaugeMetricFamily("data_disk_free_bytes", "Free bytes of the disk of the data directory", usage.free)
