"""Messages of tutti.lineage.v1; generated, do not edit."""

from tutti.contracts.lineage.v1.lineage_pb2 import DIRECTION_DOWN, DIRECTION_UNSPECIFIED, DIRECTION_UP, Direction, Document, Edge, ListDocumentsRequest, ListDocumentsResponse, ListedDocument, Reach, ReachedCheckpoint, ReachedDataset, ReachedDocument, ReachedLine, ReachedRun, ShowDocumentRequest, ShowReachRequest, Sighting, TraceDocumentRequest, TraceDocumentResponse, TraceRequest, TraceResponse, TraceStepRequest, TraceStepResponse, Vertex

__all__ = ['DIRECTION_DOWN', 'DIRECTION_UNSPECIFIED', 'DIRECTION_UP', 'Direction', 'Document', 'Edge', 'ListDocumentsRequest', 'ListDocumentsResponse', 'ListedDocument', 'Reach', 'ReachedCheckpoint', 'ReachedDataset', 'ReachedDocument', 'ReachedLine', 'ReachedRun', 'ShowDocumentRequest', 'ShowReachRequest', 'Sighting', 'TraceDocumentRequest', 'TraceDocumentResponse', 'TraceRequest', 'TraceResponse', 'TraceStepRequest', 'TraceStepResponse', 'Vertex']
