"""Messages of tutti.ingest.v1; generated, do not edit."""

from tutti.contracts.ingest.v1.events_pb2 import Crawl, CrawlSpec, Filter, FilterSpec, Ingest, IngestSpec, MaskCount, PageCount, Place, RuleCount, Threshold
from tutti.contracts.ingest.v1.ingest_pb2 import CrawledPage, CreateCrawlRequest, CreateCrawlResponse, CreateFilterRequest, CreateFilterResponse, CreateIngestRequest, CreateIngestResponse, DigestInputRequest, DigestInputResponse, ListCrawledPagesRequest, ListCrawledPagesResponse, ListCrawlsResponse, ListFiltersResponse, ListIngestsResponse

__all__ = ['Crawl', 'CrawlSpec', 'CrawledPage', 'CreateCrawlRequest', 'CreateCrawlResponse', 'CreateFilterRequest', 'CreateFilterResponse', 'CreateIngestRequest', 'CreateIngestResponse', 'DigestInputRequest', 'DigestInputResponse', 'Filter', 'FilterSpec', 'Ingest', 'IngestSpec', 'ListCrawledPagesRequest', 'ListCrawledPagesResponse', 'ListCrawlsResponse', 'ListFiltersResponse', 'ListIngestsResponse', 'MaskCount', 'PageCount', 'Place', 'RuleCount', 'Threshold']
