"""The host of a service: in a process of its own, beside others, and in a simulation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeVar

import grpc
from pydantic import BaseModel
from sqlalchemy import MetaData

from tutti.backbone import Blobs, Clock, Database, Randomness
from tutti.chassis.config.settings import Loaded
from tutti.chassis.errors import Unavailable
from tutti.chassis.service import Home
from tutti.chassis.store.unit import Units
from tutti.chassis.tasks import Pool

S = TypeVar("S", bound=BaseModel)


@dataclass
class ServiceHost:
    """The host that `build` gets; satisfies chassis.service.Host."""

    service: str
    database: Database
    blobs: Blobs
    clock: Clock
    randomness: Randomness
    units: Units
    metadata: MetaData
    pool: Pool
    channels: Callable[[str], grpc.Channel]
    loaded: Loaded
    place: Home | None = None

    @classmethod
    def of(
        cls,
        service: str,
        database: Database,
        blobs: Blobs,
        *,
        clock: Clock,
        randomness: Randomness,
        pool: Pool,
        channels: Callable[[str], grpc.Channel],
        loaded: Loaded,
        metadata: MetaData | None = None,
        units: Callable[..., Units] = Units,
        place: Home | None = None,
    ) -> Self:
        """Return a host with units of work of its own; `units` is their class, `place` where it starts programs."""
        metadata = MetaData() if metadata is None else metadata
        made = units(database, service, metadata, clock=clock, randomness=randomness)
        return cls(service, database, blobs, clock, randomness, made, metadata, pool, channels, loaded, place)

    def channel(self, service: str) -> grpc.Channel:
        return self.channels(service)

    def settings(self, model: type[S]) -> S:
        return self.loaded.section(self.service, model)

    def home(self) -> Home:
        if self.place is None:
            raise Unavailable(f"{self.service} can start no program here: only the host of a data directory does")
        return self.place
