"""The stage `crawl`: visits a part of the web."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tutti.contracts.ingest.v1 import Crawl, CrawlSpec, Place
from tutti.corpus.documents.stages import CrawlBody
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import StageContext, StageDef
from tutti.pipeline.recipes.sections import CrawlSection
from tutti.pipeline.recipes.values import Resident
from tutti.pipeline.recipes.view import View
from tutti.records.counts import counted
from tutti.records.manifest import Manifest


class CrawlStage(StageDef):
    name = "crawl"
    work = Crawl
    section = CrawlSection
    movable = True
    brings_pages = True
    resident = Resident("benchmarks.crawl", 116_000_000)

    def hosts(self, view: View) -> Mapping[str, str]:
        return _part(view).connect

    def request(self, asked: StageContext) -> CrawlSpec:
        crawl = _part(asked.view)
        connect = json.loads(asked.source.path) if asked.source else {}
        return CrawlSpec(
            seeds=crawl.seeds,
            within=crawl.within,
            without=crawl.without,
            depth=crawl.depth,
            pages=crawl.pages,
            pages_of_host=crawl.pages_of_host,
            alike=crawl.alike,
            contact=crawl.contact,
            delay_seconds=crawl.delay_seconds,
            connections=crawl.connections,
            page_bytes=crawl.page_bytes,
            page_seconds=crawl.page_seconds,
            allow_private=crawl.allow_private,
            skip_sitemaps=not crawl.sitemaps,
            connect=[Place(host=host, address=there) for host, there in sorted(connect.items())],
            logic_version=asked.logic_version,
            since=crawl.since,
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        return _part(asked.view).parameters()

    def questions(self, view: View) -> Iterator[View]:
        yield view

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        crawl = CrawlBody.read(manifest)
        yield from map(Expected.by_digest, (*crawl.archives, *crawl.earlier))

    def pages(self, work: Any) -> int:
        return sum(each.pages for each in work.counts if each.what == "visited/page")

    def unforeseeable(self, view: View) -> str:
        crawl = _part(view)
        return (
            f"not known before the crawl: at most {crawl.pages:,} visits, those to a host {crawl.delay_seconds:g} s "
            f"apart or what its robots.txt asks for"
        )

    def summary(self, work: Any) -> str:
        return counted(self.pages(work), "page")


def _part(view: View) -> CrawlSection:
    return view.section(CrawlSection)


STAGE = CrawlStage()
