"""Settings of ingest, in `[ingest]` of tutti.toml."""

import os

from pydantic import Field

from tutti.chassis.config.settings import Section

MOST = 4


class IngestSettings(Section):
    workers: int = Field(
        default=0, ge=0, le=64, description=f"processes that extract and measure; 0: one a core, at most {MOST}"
    )

    ray: str = Field(
        default="",
        description="host:port of the head of a Ray cluster that includes this machine, for engine: ray",
    )

    roots: list[str] = Field(default=[], description="folders that inputs of recipes must be in; empty: any folder")

    @property
    def processes(self) -> int:
        """The number of parallel processes."""
        return self.workers or min(os.cpu_count() or 1, MOST)
