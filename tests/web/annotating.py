"""An annotator without a browser: the calls of the page's script over HTTP."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.web.hosted import Visitor


@dataclass
class Annotator:
    """Somebody who has logged in by a link, at a campaign."""

    visitor: Visitor
    campaign: str

    @classmethod
    def by_link(cls, url: str, token: str, campaign: str) -> "Annotator":
        visitor = Visitor(url)
        assert visitor.post("/login", {"token": token, "next": "/annotation"}).status == 303
        return cls(visitor, campaign)

    def state(self) -> Any:
        return self.visitor.get(f"/annotation/{self.campaign}/state.json").json

    def call(self, name: str, **body: object) -> Any:
        token = self.visitor.get(f"/annotation/{self.campaign}/state.json").headers["x-form-token"]
        headers = {"content-type": "application/json", "x-form-token": token, "sec-fetch-site": "same-origin"}
        text = json.dumps({"campaign": self.campaign, **body})
        return self.visitor.send("POST", f"/annotation/api/{name}", text, headers).json

    def lease(self, count: int = 8) -> Sequence[Any]:
        pairs: Sequence[Any] = self.call("leases", count=count)["pairs"]
        return pairs

    def judge(self, pairs: Sequence[Any], write: Callable[[str], str] = lambda question: "") -> Any:
        """Judge pairs, with an answer of one's own where `write` returns one to the last question; the receipt."""
        guideline, judgements = self.state()["guideline"]["version"], []
        for pair in pairs:
            said = {"pair": pair["id"], "guideline": guideline, "answers": {"helpful": 1}, "kind": "judged"}
            judgement = {"id": str(UUID(hex=f"{pair['id']:0>32}"[-32:], version=4)), "shown_ms": 4000, **said}
            if words := write(pair["prompt"][-1]["content"]):
                judgement["demonstration"] = words
            judgements.append(judgement)
        return self.call("judgements", judgements=judgements)
