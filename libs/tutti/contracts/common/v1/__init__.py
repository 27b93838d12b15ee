"""Messages of tutti.common.v1; generated, do not edit."""

from tutti.contracts.common.v1.common_pb2 import Artifact, CancelRequest, GetRequest, ListRequest, Placed, Progress, STATE_CANCELLED, STATE_DONE, STATE_FAILED, STATE_PENDING, STATE_RUNNING, STATE_UNSPECIFIED, Shape, State
from tutti.contracts.common.v1.training_pb2 import Conversion, Initial, ModelSpec, OptimizerSpec, RoleModel, RopeScaling, SkippedSteps, StepSpec, Training, WeightedDataset

__all__ = ['Artifact', 'CancelRequest', 'Conversion', 'GetRequest', 'Initial', 'ListRequest', 'ModelSpec', 'OptimizerSpec', 'Placed', 'Progress', 'RoleModel', 'RopeScaling', 'STATE_CANCELLED', 'STATE_DONE', 'STATE_FAILED', 'STATE_PENDING', 'STATE_RUNNING', 'STATE_UNSPECIFIED', 'Shape', 'SkippedSteps', 'State', 'StepSpec', 'Training', 'WeightedDataset']
