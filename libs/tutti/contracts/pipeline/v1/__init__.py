"""Messages of tutti.pipeline.v1; generated, do not edit."""

from tutti.contracts.pipeline.v1.events_pb2 import Run, RunFigures, RunLabels, RunSpec, RunTraining, Stage, StageInput
from tutti.contracts.pipeline.v1.pipeline_pb2 import CheckRecipeRequest, CheckRecipeResponse, CreateRunRequest, CreateRunResponse, Forecast, InputReport, ListRecipeFilesRequest, ListRecipeFilesResponse, ListRunsResponse, PlanRerunsRequest, PlanRerunsResponse, RERUN_EFFECT_AGAIN, RERUN_EFFECT_PERHAPS, RERUN_EFFECT_REUSED, RERUN_EFFECT_UNSPECIFIED, RecipeFile, RecipeProblem, Rerun, RerunEffect, RerunStage, UpdateRunRequest

__all__ = ['CheckRecipeRequest', 'CheckRecipeResponse', 'CreateRunRequest', 'CreateRunResponse', 'Forecast', 'InputReport', 'ListRecipeFilesRequest', 'ListRecipeFilesResponse', 'ListRunsResponse', 'PlanRerunsRequest', 'PlanRerunsResponse', 'RERUN_EFFECT_AGAIN', 'RERUN_EFFECT_PERHAPS', 'RERUN_EFFECT_REUSED', 'RERUN_EFFECT_UNSPECIFIED', 'RecipeFile', 'RecipeProblem', 'Rerun', 'RerunEffect', 'RerunStage', 'Run', 'RunFigures', 'RunLabels', 'RunSpec', 'RunTraining', 'Stage', 'StageInput', 'UpdateRunRequest']
