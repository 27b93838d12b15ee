"""Messages of tutti.pipeline.v1; generated, do not edit."""

from tutti.contracts.pipeline.v1.events_pb2 import Run, RunSpec, RunTraining, Stage, StageInput
from tutti.contracts.pipeline.v1.pipeline_pb2 import CheckRecipeRequest, CheckRecipeResponse, CreateRunRequest, CreateRunResponse, Forecast, InputReport, ListRecipeFilesRequest, ListRecipeFilesResponse, ListRunsResponse, RecipeFile, RecipeProblem

__all__ = ['CheckRecipeRequest', 'CheckRecipeResponse', 'CreateRunRequest', 'CreateRunResponse', 'Forecast', 'InputReport', 'ListRecipeFilesRequest', 'ListRecipeFilesResponse', 'ListRunsResponse', 'RecipeFile', 'RecipeProblem', 'Run', 'RunSpec', 'RunTraining', 'Stage', 'StageInput']
