// The drawer "Why this answer": its record, and the comparison with an answer that is computed again.

import { CallFailed } from "./calls.js";
import { continued, moved, unseen } from "./endings.js";
import { sentence } from "./failures.js";
import { element } from "./markdown.js";
import { overlap } from "./overlap.js";
import { TokenView } from "./tokens.js";

const ENDS = {
  stop: "It ended by itself.",
  length: "It was cut: it may not be longer.",
  content_filter: "The filter withheld it.",
  cancelled: "It was stopped, or failed, before its own end.",
};
const verdicts = new Map(); // of answers that were computed again, the class and the words, as long as the page

// `calls` has `verify()` and `overlap()`, and those of a TokenView. Returns the view of the tokens, and the elements: first
// what can be read without knowing the platform, and then names and commands.
export function drawer(found, message, calls) {
  const made = document.createDocumentFragment();
  const given = message.given || found.given;
  const view = new TokenView(calls, given);
  const searched = overlap(calls.overlap);
  if (given) made.append(element("p", { class: "continued" }, continued({ given })));
  made.append(section("In short", ...inShort(found, message).map((each) => element("p", {}, each))));
  made.append(section("Overlap with the training data", searched.words));
  made.append(section("Check it", ...verification(found, calls.verify)));
  made.append(section("Tokens", ...view.parts));
  const details = element("details", {}, element("summary", {}, "For engineers"));
  details.append(section("Record", record(found)));
  details.append(section(found.release ? "Released" : "An experiment", ...standing(found.release)));
  details.append(section("Search", searched.details));
  const command = element("code", {}, `tutti trace ${found.answer}`);
  details.append(section("What made it", element("p", {}, command, " leads to its checkpoint, and on to documents and people.")));
  made.append(details);
  return { made, view };
}

function inShort(found, { unsent }) {
  const said = [`The model read ${count(found.prompt_tokens, "token")} and wrote ${count(found.completion_tokens, "token")}: words, or pieces of words. ${ENDS[found.finished] ?? ""}`];
  return [...said, released(found.release), moved(found.moved), unseen({ unsent })].filter(Boolean);
}

function released(release) {
  if (!release) return "This model is an experiment: nobody judged it against a rule.";
  const { standing, missing, findings, people } = release;
  if (missing) return `Whether the release of this model is active is not known: ${missing}.`;
  const judgements = [...new Map(findings.map((each) => [each.comparison, each.judgements])).values()].reduce((sum, each) => sum + each, 0);
  const rules = `${findings.filter((each) => each.passed).length} of ${count(findings.length, "rule")}`;
  const by = judgements ? `, by ${count(judgements, "judgement")} of ${people}` : "";
  const begun = standing === "active" ? "This model was released" : `The release of this model is ${standing}`;
  return findings.length ? `${begun}: it satisfies ${rules}${by}.` : `${begun}.`;
}

function verification(found, verify) {
  const verdict = element("p", { role: "status" });
  const tell = (look, words) => {
    verdicts.set(found.answer, { look, words });
    Object.assign(verdict, { className: look, textContent: words });
  };
  if (verdicts.has(found.answer)) tell(...Object.values(verdicts.get(found.answer)));
  const again = element("button", { type: "button", class: "verify" }, "Compute it again");
  again.onclick = async () => {
    again.disabled = true;
    Object.assign(verdict, { className: "", textContent: "It is computed again …" });
    try {
      const { equal, differs, bytes } = await verify();
      if (equal) tell("same", `Identical, ${bytes} of ${found.bytes} bytes`);
      else tell("differs", `It differs in: ${differs.join(", ")}`);
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      tell("differs", sentence(failure));
    }
    again.disabled = false;
  };
  return [element("p", {}, "The model makes the answer once more from its record, and every byte is compared."), again, verdict];
}

function record(found) {
  const lines = {
    Model: found.deployment.replace("deployments/", ""),
    Checkpoint: found.checkpoint,
    Answer: found.answer,
    Seed: found.seed,
    Temperature: found.temperature ?? "not kept",
    "Top p": found.top_p ?? "not kept",
    ...(found.top_k ? { "Top k": found.top_k } : {}),
    Tokens: `${found.prompt_tokens} read, ${found.completion_tokens} written`,
    Ended: found.finished,
    Mode: found.exact ? "exact: its bits are equal on every replica of this kind" : "inexact",
    Replicas: found.moved ? `moved ${found.moves.map(({ at }) => `after token ${at}`).join(", ")}` : "one",
  };
  const made = element("dl");
  for (const [key, value] of Object.entries(lines)) made.append(element("dt", {}, key), element("dd", {}, `${value}`));
  return made;
}

export function standing(release) {
  if (!release) return [element("p", {}, "No release names this checkpoint: nobody judged it against a rule.")];
  const made = [element("p", {}, `${release.name}, ${release.standing || `whose standing could not be read: ${release.missing}`}`)];
  for (const each of release.findings) {
    const seen = each.seen === null ? "not measured" : each.seen.toFixed(3);
    const of = each.judgements ? `, ${each.judgements} judgements of ${release.people}` : "";
    made.push(element("p", { class: "soft" }, `${each.rule} ${seen} (limit ${each.limit})${of}: ${each.comparison}`));
  }
  return made;
}

function section(title, ...children) {
  return element("section", {}, element("h3", {}, title), ...children);
}

function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}
