"""Settings of ingest, in `[ingest]` of tutti.toml."""

import ipaddress
import os

from pydantic import Field, field_validator

from tutti.chassis.config.sections import Section

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

    private_ranges: list[str] | None = Field(
        default=None,
        description="IP ranges outside the public internet that crawls may connect to, if their recipes allow or name "
        "them, such as 10.1.0.0/16; unset: all if all users belong to one tenant, and none otherwise",
    )

    @field_validator("private_ranges")
    @classmethod
    def _are_ranges(cls, ranges: list[str] | None) -> list[str] | None:
        for each in ranges or ():
            ipaddress.ip_network(each)
        return ranges

    @property
    def processes(self) -> int:
        """The number of parallel processes."""
        return self.workers or min(os.cpu_count() or 1, MOST)
