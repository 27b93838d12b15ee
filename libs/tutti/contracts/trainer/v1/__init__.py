"""Messages of tutti.trainer.v1; generated, do not edit."""

from tutti.contracts.trainer.v1.io_pb2 import BuffersRequest, BuffersResponse, ExperienceName, ExperienceStored, IoMessage, Lost, Release, Spooled, StageRequest, StageResponse, StagedModel, StoreExperience, StoreRequest, Stored, Trouble, Verified, VerifyRequest
from tutti.contracts.trainer.v1.rank_pb2 import BufferFree, Dump, Failed, Finished, FlightRecord, Heartbeat, Listening, OUTCOME_COMMITTED, OUTCOME_SKIPPED, OUTCOME_UNSPECIFIED, Outcome, Progress, RankMessage, Ready, RolledOut, Snapshot, Start, Stop

__all__ = ['BufferFree', 'BuffersRequest', 'BuffersResponse', 'Dump', 'ExperienceName', 'ExperienceStored', 'Failed', 'Finished', 'FlightRecord', 'Heartbeat', 'IoMessage', 'Listening', 'Lost', 'OUTCOME_COMMITTED', 'OUTCOME_SKIPPED', 'OUTCOME_UNSPECIFIED', 'Outcome', 'Progress', 'RankMessage', 'Ready', 'Release', 'RolledOut', 'Snapshot', 'Spooled', 'StageRequest', 'StageResponse', 'StagedModel', 'Start', 'Stop', 'StoreExperience', 'StoreRequest', 'Stored', 'Trouble', 'Verified', 'VerifyRequest']
