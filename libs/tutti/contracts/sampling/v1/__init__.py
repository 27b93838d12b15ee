"""Messages of tutti.sampling.v1; generated, do not edit."""

from tutti.contracts.sampling.v1.events_pb2 import Export, ExportSpec, ExportedFile, FORMAT_HUGGING_FACE, FORMAT_UNSPECIFIED, Format, Sample, SampleSpec
from tutti.contracts.sampling.v1.sampling_pb2 import Continuation, CreateExportRequest, CreateExportResponse, CreateSampleRequest, CreateSampleResponse, ListExportsResponse, ListSamplesResponse, ReadExportRequest, ReadExportResponse, ReadSampleRequest, ReadSampleResponse, STOP_CONTEXT, STOP_END, STOP_TOKENS, STOP_UNSPECIFIED, Stop

__all__ = ['Continuation', 'CreateExportRequest', 'CreateExportResponse', 'CreateSampleRequest', 'CreateSampleResponse', 'Export', 'ExportSpec', 'ExportedFile', 'FORMAT_HUGGING_FACE', 'FORMAT_UNSPECIFIED', 'Format', 'ListExportsResponse', 'ListSamplesResponse', 'ReadExportRequest', 'ReadExportResponse', 'ReadSampleRequest', 'ReadSampleResponse', 'STOP_CONTEXT', 'STOP_END', 'STOP_TOKENS', 'STOP_UNSPECIFIED', 'Sample', 'SampleSpec', 'Stop']
