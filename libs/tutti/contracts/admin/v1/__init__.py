"""Messages of tutti.admin.v1; generated, do not edit."""

from tutti.contracts.admin.v1.admin_pb2 import AuditRecord, DeadLetter, DescribeRequest, DescribeResponse, DoctorRequest, DoctorResponse, ExportRequest, ExportResponse, ListAuditRecordsRequest, ListAuditRecordsResponse, ListDeadLettersRequest, ListDeadLettersResponse, RepublishEventsRequest, RepublishEventsResponse, SettleDeadLetterRequest, SettleDeadLetterResponse, TailEventsRequest, TailEventsResponse, WatchRequest, WatchResponse

__all__ = ['AuditRecord', 'DeadLetter', 'DescribeRequest', 'DescribeResponse', 'DoctorRequest', 'DoctorResponse', 'ExportRequest', 'ExportResponse', 'ListAuditRecordsRequest', 'ListAuditRecordsResponse', 'ListDeadLettersRequest', 'ListDeadLettersResponse', 'RepublishEventsRequest', 'RepublishEventsResponse', 'SettleDeadLetterRequest', 'SettleDeadLetterResponse', 'TailEventsRequest', 'TailEventsResponse', 'WatchRequest', 'WatchResponse']
