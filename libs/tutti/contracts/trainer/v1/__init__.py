"""Messages of tutti.trainer.v1; generated, do not edit."""

from tutti.contracts.trainer.v1.io_pb2 import BuffersRequest, BuffersResponse, IoMessage, Lost, Release, Spooled, StageRequest, StageResponse, StoreRequest, Stored, Trouble, Verified, VerifyRequest
from tutti.contracts.trainer.v1.rank_pb2 import BufferFree, Dump, Failed, Finished, FlightRecord, Heartbeat, Listening, OUTCOME_COMMITTED, OUTCOME_SKIPPED, OUTCOME_UNSPECIFIED, Outcome, Progress, RankMessage, Ready, Snapshot, Start, Stop

__all__ = ['BufferFree', 'BuffersRequest', 'BuffersResponse', 'Dump', 'Failed', 'Finished', 'FlightRecord', 'Heartbeat', 'IoMessage', 'Listening', 'Lost', 'OUTCOME_COMMITTED', 'OUTCOME_SKIPPED', 'OUTCOME_UNSPECIFIED', 'Outcome', 'Progress', 'RankMessage', 'Ready', 'Release', 'Snapshot', 'Spooled', 'StageRequest', 'StageResponse', 'Start', 'Stop', 'StoreRequest', 'Stored', 'Trouble', 'Verified', 'VerifyRequest']
