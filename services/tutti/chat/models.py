"""Models that answer, by the names that clients call them."""

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.chassis.errors import NotFound
from tutti.chat.defaults import NONE, Defaults
from tutti.chat.routing import Router
from tutti.chat.saying import Served
from tutti.inference.memory import STREAMS


@dataclass(frozen=True)
class Model:
    """A deployment that serves: `name` is what clients call it, and so are its resource and its checkpoint.

    `created` is in seconds since 1970, `streams` the number of answers that its replicas compute at once. `defaults` is
    the sampling of answers whose requests name none.
    """

    name: str
    deployment: str
    checkpoint: str
    created: int
    served: Served
    router: Router
    fingerprint: str
    streams: int = STREAMS
    defaults: Defaults = NONE

    def is_called(self, name: str) -> bool:
        return name in (self.name, self.deployment, self.checkpoint)


def called(models: Sequence[Model], name: str) -> Model:
    """The first of the models that have this name. Raises NotFound."""
    found = [each for each in models if each.is_called(name)]
    if not found:
        raise NotFound(f"the model {name!r}")
    return min(found, key=lambda each: each.name)
