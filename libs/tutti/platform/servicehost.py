"""The host of a service in a real process."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import grpc
from pydantic import BaseModel
from sqlalchemy import MetaData

from tutti.backbone import Blobs, Clock, Database, Randomness
from tutti.chassis.config.settings import Loaded
from tutti.chassis.store.unit import Units
from tutti.chassis.tasks import Pool

S = TypeVar("S", bound=BaseModel)


@dataclass
class ServiceHost:
    """The host that `build` gets in a real process; satisfies chassis.service.Host."""

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

    def channel(self, service: str) -> grpc.Channel:
        return self.channels(service)

    def settings(self, model: type[S]) -> S:
        return self.loaded.section(self.service, model)
