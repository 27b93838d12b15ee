"""Settings of the pipeline, in `[pipeline]` of tutti.toml."""

from pydantic import Field

from tutti.chassis.config.sections import Section


class PipelineSettings(Section):
    roots: list[str] = Field(
        default=[], description="folders that files of text of recipes must be in; empty: any folder"
    )
