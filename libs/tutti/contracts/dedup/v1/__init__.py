"""Messages of tutti.dedup.v1; generated, do not edit."""

from tutti.contracts.dedup.v1.dedup_pb2 import CreateDedupRequest, CreateDedupResponse, FindContaminatedRequest, FindContaminatedResponse, HeldOutConversations, ListDedupsResponse
from tutti.contracts.dedup.v1.events_pb2 import Dedup, DedupSpec, Documents, Lines, RepeatedUnit

__all__ = ['CreateDedupRequest', 'CreateDedupResponse', 'Dedup', 'DedupSpec', 'Documents', 'FindContaminatedRequest', 'FindContaminatedResponse', 'HeldOutConversations', 'Lines', 'ListDedupsResponse', 'RepeatedUnit']
