"""The committer's own settings."""

from pydantic import Field

from tutti.chassis.config.sections import Section


class CommitterSettings(Section):
    """Seconds: of a claim on a verification; until the committer reads a shard itself; until pruned bytes, late shards
    that make no whole state, and what sealed epochs left undecided, go; after the last report or opening, until the
    store is no longer searched for a job's untold reports.
    """

    claim_seconds: float = Field(default=60.0, gt=0)
    patience_seconds: float = Field(default=30.0, ge=0)
    grace_seconds: float = Field(default=600.0, ge=0)
    adopt_seconds: float = Field(default=3600.0, gt=0)
    roots: list[str] = Field(
        default=[],
        description="folders that imported folders must be in, and that links in them may lead to; empty: any folder, "
        "for the holder of the platform's own tokens alone",
    )
