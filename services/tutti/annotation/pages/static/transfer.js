// The outbox as a file, by which unsent judgements move from a tab at an old address to the page at the new one.
//
// The file has the judgements, as a delivery has them, and whose they are; no text of a pair. It comes from anywhere, so
// its form is checked here, and each judgement by the server, which stores one of a known id once.

import { CallFailed } from "./calls.js";
import { element } from "./markdown.js";
import { batchOf } from "./sender.js";
import { say } from "./words.js";

const FORMAT = "tutti/outbox";
const VERSION = 1;
const FIELDS = ["annotator", "campaign", "format", "judgements", "user", "version"];
const MOST_BYTES = 8 << 20;
const MOST_JUDGEMENTS = 1000;
const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const KEPT_MILLISECONDS = 60_000; // the browser may read the file after the click

// A file that is not taken; `reason` is also the key of its words.
export class BadFile extends Error {
  constructor(reason) {
    super(reason);
    this.reason = reason;
  }
}

// Saves judgements of `owner`, which has `campaign`, `annotator` and `user`.
export function save(owner, judgements) {
  const text = JSON.stringify({ format: FORMAT, version: VERSION, ...owner, judgements }, null, 1);
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  element("a", { href: url, download: `judgements-${owner.campaign}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MILLISECONDS);
}

// The judgements of a file that was saved for the same owner. Throws BadFile.
export async function read(file, owner) {
  if (file.size > MOST_BYTES) throw new BadFile("fileTooLarge");
  let content;
  try {
    content = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer()));
  } catch {
    throw new BadFile("fileNoJson");
  }
  if (content?.format !== FORMAT) throw new BadFile("fileNoOutbox");
  if (content.version !== VERSION) throw new BadFile("fileOtherVersion");
  const { campaign, annotator, user, judgements } = content;
  if (`${Object.keys(content).sort()}` !== `${FIELDS}` || !areJudgements(judgements)) throw new BadFile("fileNoOutbox");
  if (campaign !== owner.campaign) throw new BadFile("fileOtherCampaign");
  if (annotator !== owner.annotator || user !== owner.user) throw new BadFile("fileOtherAnnotator");
  return judgements;
}

function areJudgements(found) {
  if (!Array.isArray(found) || !found.length || found.length > MOST_JUDGEMENTS) return false;
  const ids = found.map((each) => each?.id);
  return new Set(ids).size === ids.length && ids.every((each) => typeof each === "string" && ID.test(each));
}

// Delivers judgements as the outbox does, and calls `taken(judgements, receipt)` with those that the server has now.
// Resolves with what became of each, in order: "stored", "known", "refused" or "unsent", with a reason and words.
export async function deliver(calls, judgements, taken) {
  const outcomes = new Map(judgements.map(({ id }) => [id, { outcome: "unsent", reason: "", words: say("offlineTitle") }]));
  for (let rest = judgements; rest.length; ) {
    const batch = batchOf(rest);
    rest = rest.slice(batch.length);
    try {
      const receipt = await calls.post("judgements", { judgements: batch });
      const known = new Set(receipt.known);
      for (const id of receipt.accepted) outcomes.set(id, { outcome: known.has(id) ? "known" : "stored", reason: "", words: "" });
      for (const { id, reason, words } of receipt.refused) outcomes.set(id, { outcome: "refused", reason, words });
      const accepted = new Set(receipt.accepted);
      taken(batch.filter(({ id }) => accepted.has(id)), receipt);
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      const { kind, message } = failure;
      for (const { id } of [...batch, ...rest]) outcomes.set(id, { outcome: "unsent", reason: kind, words: message || say("offlineTitle") });
      break;
    }
  }
  return [...outcomes.values()];
}

export function report(outcomes) {
  const list = element("ol", { class: "outcomes" });
  for (const { outcome, reason, words } of outcomes) {
    const word = say(outcome === "refused" ? "notStored" : outcome);
    const text = words ? `${word}: ${words}` : word;
    list.append(element("li", { dir: "auto", "data-outcome": outcome, "data-reason": reason }, text));
  }
  return list;
}
