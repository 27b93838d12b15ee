"""Releases of deployments: until when each may serve, and how the answers were drawn for which it was made.

Promises: a release that was revoked is noticed within LOOK_SECONDS while evaluation answers; while it does not, the
last known standing counts.
"""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import grpc

from tutti.chassis.errors import NotFound, Problem
from tutti.chassis.rpc.kinds import kind_of
from tutti.chat.defaults import NONE, Defaults, of_release
from tutti.contracts.chat.v1 import Deployment
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.evaluation.v1 import (
    STANDING_ACTIVE,
    STANDING_REVOKED,
    STANDING_STALE,
    Comparison,
    Release,
    Standing,
)
from tutti.contracts.evaluation.v1.stubs import ReleaseServiceStub
from tutti.contracts.sampling.v1 import Sample

LOOK_SECONDS = 5.0
STALE = timedelta(hours=24)
"""A deployment whose release became stale serves for this long."""
log = logging.getLogger(__name__)


class Releases:
    """`monotonic` is in seconds."""

    def __init__(self, channel: Callable[[str], grpc.Channel], monotonic: Callable[[], float]) -> None:
        self._channel, self._monotonic = channel, monotonic
        self._known: dict[str, tuple[float, Standing.ValueType]] = {}

    def standing(self, release: str) -> "Standing.ValueType":
        """The standing of a release, at most LOOK_SECONDS old; an experiment has no release and counts as active."""
        if not release:
            return STANDING_ACTIVE
        now = self._monotonic()
        looked_at, known = self._known.get(release, (float("-inf"), STANDING_ACTIVE))
        if now - looked_at < LOOK_SECONDS:
            return known
        try:
            found = ReleaseServiceStub(self._channel("evaluation")).GetRelease(GetRequest(name=release)).standing
        except NotFound:
            found = STANDING_REVOKED
        except Problem as error:
            log.warning("the standing of %s is not known now: %s", release, error)
            found = known
        self._known[release] = (now, found)
        return found

    def defaults(self, release: str) -> Defaults:
        """The default sampling that follows from the evidence of a release. Raises Problem while an owner is away."""
        try:
            found: Release = kind_of(Release).get(self._channel("evaluation"), release)
        except NotFound:
            return NONE
        return of_release(found, dict(self._samples(found)))

    def _samples(self, release: Release) -> Iterator[tuple[str, Sample]]:
        """The candidate's answers by the name of their comparison, except those that are gone."""
        for each in release.spec.comparisons:
            try:
                comparison: Comparison = kind_of(Comparison).get(self._channel("evaluation"), each.name)
                yield each.name, kind_of(Sample).get(self._channel("sampling"), comparison.spec.candidate.name)
            except NotFound as error:
                log.warning("%s does not say how its answers were drawn: %s", release.name, error)


def withdrawn(deployment: Deployment, standing: "Standing.ValueType", now: datetime) -> str:
    """The reason why a deployment may not serve any more; empty if it may."""
    if standing == STANDING_ACTIVE:
        return ""
    again = "serve a checkpoint with an active release (`tutti releases ls`), or try this one with --experimental"
    if standing == STANDING_STALE:
        since = deployment.stale_since.ToDatetime(now.tzinfo) if deployment.HasField("stale_since") else now
        return f"{deployment.release} has been stale for 24 hours: {again}" if now - since >= STALE else ""
    return f"{deployment.release} was revoked: {again}"
