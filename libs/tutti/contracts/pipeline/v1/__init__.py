"""Messages of tutti.pipeline.v1; generated, do not edit."""

from tutti.contracts.pipeline.v1.events_pb2 import Run, RunSpec, Stage
from tutti.contracts.pipeline.v1.pipeline_pb2 import CheckRecipeRequest, CheckRecipeResponse, CreateRunRequest, CreateRunResponse, ListRunsResponse

__all__ = ['CheckRecipeRequest', 'CheckRecipeResponse', 'CreateRunRequest', 'CreateRunResponse', 'ListRunsResponse', 'Run', 'RunSpec', 'Stage']
