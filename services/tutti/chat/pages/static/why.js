// The drawer "Why this answer": its record, and the comparison with an answer that is computed again.

import { CallFailed } from "./calls.js";
import { sentence } from "./failures.js";
import { element } from "./markdown.js";
import { overlap } from "./overlap.js";
import { TokenView, continued } from "./tokens.js";

const ENDS = {
  stop: "by itself, or at a stop string",
  length: "cut: it may not be longer",
  content_filter: "withheld by the filter",
  cancelled: "stopped, or failed, before its own end",
};
const verdicts = new Map(); // of answers that were computed again, the class and the words, as long as the page

// `calls` has `verify()` and `overlap()`, and those of a TokenView. Returns the view of the tokens, and the elements.
export function drawer(found, message, calls) {
  const made = document.createDocumentFragment();
  const given = message.given || found.given;
  const view = new TokenView(calls, given);
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
      const { equal, differs, bytes } = await calls.verify();
      if (equal) tell("same", `Identical, ${bytes} of ${found.bytes} bytes`);
      else tell("differs", `It differs in: ${differs.join(", ")}`);
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      tell("differs", sentence(failure));
    }
    again.disabled = false;
  };
  if (given) made.append(element("p", { class: "continued" }, continued({ given })));
  made.append(verdict, again, section("Tokens", ...view.parts));
  made.append(section(found.release ? "Released" : "An experiment", ...standing(found.release)));
  made.append(section("Overlap with the training data", overlap(calls.overlap)));
  const done = [found.moved ? moves(found) : "It was made by one replica."];
  if (message.unsent) done.push(`The model did not see the ${message.unsent} oldest messages: they did not fit.`);
  made.append(section("What was done to it", ...done.map((each) => element("p", {}, each))));
  const record = {
    Model: found.deployment.replace("deployments/", ""),
    Checkpoint: found.checkpoint,
    Answer: found.answer,
    Seed: found.seed,
    Temperature: found.temperature ?? "not kept",
    "Top p": found.top_p ?? "not kept",
    ...(found.top_k ? { "Top k": found.top_k } : {}),
    Tokens: `${found.prompt_tokens} read, ${found.completion_tokens} written`,
    Ended: ENDS[found.finished] ?? found.finished,
    Mode: found.exact ? "exact: its bits are equal on every replica of this kind" : "inexact",
  };
  const list = element("dl");
  for (const [key, value] of Object.entries(record)) list.append(element("dt", {}, key), element("dd", {}, `${value}`));
  made.append(section("Record", list));
  const command = element("code", {}, `tutti trace ${found.answer}`);
  made.append(section("What made it", element("p", {}, command, " leads to its checkpoint, and on to documents and people.")));
  return { made, view };
}

function moves(found) {
  const places = found.moves.map(({ at }) => `after token ${at}`).join(", ");
  return `It moved ${found.moved === 1 ? "once" : `${found.moved} times`} to another replica: ${places}.`;
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
