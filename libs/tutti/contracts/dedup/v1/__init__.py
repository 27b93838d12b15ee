"""Messages of tutti.dedup.v1; generated, do not edit."""

from tutti.contracts.dedup.v1.dedup_pb2 import CreateDedupRequest, CreateDedupResponse, FindContaminatedRequest, FindContaminatedResponse, FindNearDuplicatesRequest, FindNearDuplicatesResponse, HeldOutConversations, ListDedupsResponse, NearDuplicate
from tutti.contracts.dedup.v1.events_pb2 import Dedup, DedupSpec, Documents, Lines, RepeatedUnit

__all__ = ['CreateDedupRequest', 'CreateDedupResponse', 'Dedup', 'DedupSpec', 'Documents', 'FindContaminatedRequest', 'FindContaminatedResponse', 'FindNearDuplicatesRequest', 'FindNearDuplicatesResponse', 'HeldOutConversations', 'Lines', 'ListDedupsResponse', 'NearDuplicate', 'RepeatedUnit']
