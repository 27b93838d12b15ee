"""Settings of dedup, in `[dedup]` of tutti.toml."""

from pydantic import Field

from tutti.chassis.config.sections import Section


class DedupSettings(Section):
    ray: str = Field(
        default="",
        description="host:port of the head of a Ray cluster that includes this machine, for engine: ray",
    )
    ray_blobs: str = Field(
        default="", description="blobs.url as the nodes of the cluster reach it: a shared folder, or s3://…"
    )
