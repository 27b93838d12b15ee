"""What an operator may set of dedup, in `[dedup]` of tutti.toml."""

from pydantic import Field

from tutti.chassis.config.settings import Section


class DedupSettings(Section):
    ray: str = Field(
        default="",
        description="host:port of the head of a Ray cluster that this machine is a node of, for engine: ray",
    )
    ray_blobs: str = Field(
        default="", description="blobs.url as the cluster's nodes reach it: a folder that all of them share, or s3://…"
    )
