"""Messages of tutti.admin.v1; generated, do not edit."""

from tutti.contracts.admin.v1.admin_pb2 import DeadLetter, DescribeRequest, DescribeResponse, DoctorRequest, DoctorResponse, ExportRequest, ExportResponse, ListDeadLettersRequest, ListDeadLettersResponse, RepublishEventsRequest, RepublishEventsResponse, SettleDeadLetterRequest, SettleDeadLetterResponse, TailEventsRequest, TailEventsResponse, WatchRequest, WatchResponse

__all__ = ['DeadLetter', 'DescribeRequest', 'DescribeResponse', 'DoctorRequest', 'DoctorResponse', 'ExportRequest', 'ExportResponse', 'ListDeadLettersRequest', 'ListDeadLettersResponse', 'RepublishEventsRequest', 'RepublishEventsResponse', 'SettleDeadLetterRequest', 'SettleDeadLetterResponse', 'TailEventsRequest', 'TailEventsResponse', 'WatchRequest', 'WatchResponse']
