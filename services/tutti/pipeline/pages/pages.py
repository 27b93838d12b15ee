"""The pages of runs: live, and read-only but for the labels of runs.

Promises: a page shows what its run has, also while the owner of a stage is away, and says who did not answer.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from tutti.chassis.errors import NotFound, Problem
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.client import Client
from tutti.client.titles import title_of
from tutti.contracts.committer.v1 import Checkpoint, CurvePoint, GetCurveRequest
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import GetRequest, ListRequest
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.scheduler.v1 import Job
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.contracts.tokenization.v1 import Dataset
from tutti.contracts.tokenization.v1.stubs import TokenizationServiceStub
from tutti.pipeline.definitions.trainingstage import progress_of
from tutti.pipeline.pages import comparison, labelling, views, workbench
from tutti.pipeline.pages.statuspage import ROLES, StatusPage
from tutti.pipeline.pages.views import Training
from tutti.pipeline.runs import progress
from tutti.pipeline.runs.tables import Tables
from tutti.records.figures import NEWEST_STEPS
from tutti.report.comparing import LETTERS, training_of
from tutti.web.charts import Series
from tutti.web.curves import curves as curves_of
from tutti.web.pages import Entry, Get, Page, Post, Redirect, Site, Visit

T = TypeVar("T")
CURVE_POINTS = 400
CHECKPOINTS = 500
SECONDS = 3.0  # for one question to another service, so that a page is shown before its own deadline


class RunPages:
    def __init__(self, host: Host, tables: Tables) -> None:
        self._host, self._tables = host, tables
        self._scheduler = SchedulerServiceStub(host.channel("scheduler"))
        self._committer = CommitterServiceStub(host.channel("committer"))
        self._tokenization = TokenizationServiceStub(host.channel("tokenization"))
        self._status = StatusPage(host)

    @property
    def site(self) -> Site:
        return Site(
            name="pipeline",
            package="tutti.pipeline.pages",
            routes=[
                Get("/runs", self.runs, ROLES, version=self.runs_version),
                Get("/runs/{id}", self.run, ROLES, version=self.run_version),
                Get("/runs/{id}/report", self.report, ROLES),
                Get("/compare", self.compare, ROLES),
                Get("/labels", self.labels, ROLES),
                Post("/labels", self.label, ROLES),
                Get("/status", self._status.status, ROLES, version=self._status.version),
            ],
            menu=[Entry("Runs", "/runs", ROLES, first=True), Entry("Status", "/status", ROLES)],
        )

    def runs(self, visit: Visit) -> Page:
        asked, missing = workbench.Question.of(visit.query, visit.several.get("run", ())), list[str]()
        listed = self._host.units.run(lambda unit: self._tables.runs.readable(unit, visit.principal))

        def ask(request: ListRequest) -> Sequence[Job]:
            jobs = None if missing else self._asked("scheduler", missing, self._scheduler.ListJobs, request)
            return jobs.jobs if jobs else ()

        progress.fill(listed.found, ask)
        found = workbench.runs_view(listed.found, self._host.clock.now(), asked, listed.damaged, missing)
        return Page("runs.html", "Runs", found)

    def runs_version(self, visit: Visit) -> str:
        """The number of changes of runs."""
        return str(self._host.units.run(self._tables.runs.changes))

    def compare(self, visit: Visit) -> Page:
        """Runs side by side. Raises InvalidField, NotFound."""
        names = comparison.names_of(visit.several.get("run", ()))
        runs, missing = [self._named(name, visit) for name in names], list[str]()
        for run in runs:
            newest = views.jobs_of(run)[-1:]
            if newest and run.figures.training.job != newest[0]:
                job = self._asked("scheduler", missing, self._scheduler.GetJob, GetRequest(name=newest[0]))
                if job is not None:
                    run.training.CopyFrom(progress_of(job))
        curves = {letter: self._curves(run, missing) for letter, run in zip(LETTERS, runs, strict=False)}
        view = comparison.compare_view(runs, curves, missing)
        return Page("compare.html", f"Compare {len(runs)} runs", view)

    def labels(self, visit: Visit) -> Page:
        """The form for the labels of runs; it is not live, so nothing that is typed is lost."""
        names = labelling.names_of(visit.several.get("run", ()))
        view = labelling.labels_view([self._named(name, visit) for name in names])
        title = f"Labels of {view.runs[0].title}" if view.one else f"Labels of {len(names)} runs"
        return Page("labels.html", title, view)

    def label(self, visit: Visit) -> Redirect:
        """Change the labels of all runs of the form, or of none. Raises InvalidField, NotFound, Refused."""
        asked = labelling.requests(visit.form)

        def change(unit: Unit) -> None:
            for request in asked:
                self._tables.label(unit, request, visit.principal)

        self._host.units.run(change)
        return labelling.back(visit.form)

    def _curves(self, run: Run, missing: list[str]) -> Sequence[Series]:
        """The curves of the newest training of a run; none once a question about curves was not answered."""
        newest = training_of(run).checkpoint
        if not newest or missing:
            return []
        asked = GetCurveRequest(name=newest, max_points=CURVE_POINTS)
        found = self._asked("committer", missing, self._committer.GetCurve, asked)
        return curves_of(found) if found else []

    def run(self, visit: Visit) -> Page:
        run, missing = self._run(visit), list[str]()
        trainings = [self._training(name, missing) for name in views.jobs_of(run)]
        datasets = [self._dataset(name, missing) for name in views.tokenizations_of(run)]
        view = views.run_view(
            run,
            self._host.clock.now(),
            [training for training in trainings if training is not None],
            [dataset for dataset in datasets if dataset is not None],
            missing,
        )
        return Page("run.html", view.title, view)

    def report(self, visit: Visit) -> Page:
        """The report that `tutti report` writes, from what the services answer now. Raises Problem."""
        from tutti.report.facts import BRIEF, gather  # brings what no other page needs
        from tutti.report.page import body

        run = self._run(visit)
        facts = gather(Client.of_channels(self._host.channel), run, BRIEF)
        view = views.ReportView(run.name, title_of(run) or run.name, facts.summary, body(facts))
        return Page("report.html", f"Report of {view.title}", view)

    def run_version(self, visit: Visit) -> str:
        """The revisions of the run and of its jobs."""
        run = self._run(visit)
        revisions = [run.revision]
        for name in views.jobs_of(run):
            request = GetRequest(name=name, read_mask=FieldMask(paths=["revision"]))
            job = self._asked("scheduler", [], self._scheduler.GetJob, request)
            revisions.append(job.revision if job else 0)
        return ".".join(map(str, revisions))

    def _run(self, visit: Visit) -> Run:
        """Raises NotFound."""
        return self._named(f"runs/{visit.path['id']}", visit)

    def _named(self, name: str, visit: Visit) -> Run:
        """Raises NotFound."""
        return self._host.units.run(lambda unit: self._tables.runs.get_for(unit, name, visit.principal))

    def _training(self, name: str, missing: list[str]) -> Training | None:
        job = self._asked("scheduler", missing, self._scheduler.GetJob, GetRequest(name=name))
        if job is None:
            return None
        curve, checkpoints, latest = None, list[Checkpoint](), list[CurvePoint]()
        if newest := views.newest_checkpoint(job):
            asked = GetCurveRequest(name=newest, max_points=CURVE_POINTS)
            curve = self._asked("committer", missing, self._committer.GetCurve, asked)
            asked = GetCurveRequest(name=newest, after_step=max(0, job.decided_step - NEWEST_STEPS))
            if found := self._asked("committer", missing, self._committer.GetCurve, asked):
                latest = list(found.points)
            listed = ListRequest(filter=f"job={name}", page_size=CHECKPOINTS)
            page = self._asked("committer", missing, self._committer.ListCheckpoints, listed)
            checkpoints = list(page.checkpoints) if page else []
        return views.training(job, curve, checkpoints, latest)

    def _dataset(self, tokenization: str, missing: list[str]) -> Dataset | None:
        asked = GetRequest(name=tokenization)
        found = self._asked("tokenization", missing, self._tokenization.GetTokenization, asked)
        if found is None or not found.dataset:
            return None
        return self._asked("tokenization", missing, self._tokenization.GetDataset, GetRequest(name=found.dataset))

    def _asked(self, service: str, missing: list[str], call: Callable[..., T], request: Message) -> T | None:
        """The answer of another service; None, and a line in `missing`, where it gives none."""
        try:
            return call(request, timeout=SECONDS)
        except NotFound:
            return None  # the resource was pruned, or is not there yet
        except Problem as problem:
            line = f"{service}: {problem.message}"
            if line not in missing:
                missing.append(line)
            return None
