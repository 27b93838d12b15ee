// Where the words of an answer occur in the training data, as elements that fill once `load()` has answered.

import { CallFailed } from "./calls.js";
import { said } from "./failures.js";
import { element, plain } from "./markdown.js";

// `words` can be read without knowing the platform, `details` has names and commands.
export function overlap(load) {
  const words = element("div", { "aria-live": "polite" }, note("The training data is searched …"));
  const details = element("div");
  load().then(
    (found) => {
      words.replaceChildren(...inWords(found));
      details.replaceChildren(...inDetail(found));
    },
    (failure) => {
      if (!(failure instanceof CallFailed)) throw failure;
      words.replaceChildren(note(`It could not be searched: ${said(failure)}. Open the drawer again to search again.`));
    },
  );
  return { words, details };
}

function inWords({ checkpoint, unindexed, unsearched, spans, least, truncated, missing }) {
  const made = [];
  if (missing) made.push(note(`It could not be searched: ${missing}. Open the drawer again to search again.`));
  else if (!checkpoint) made.push(note("Nothing was searched, so the answer may repeat what the model learnt or not: that data has no index."));
  else if (!spans.length) made.push(...nothing(least));
  else made.push(note("Overlap, not proof of influence: these words occur in what it learnt."), list(spans));
  if (truncated) made.push(note("There are more spans, which are shorter."));
  const left = unindexed.length + unsearched.length;
  if (left && checkpoint) made.push(note("A part of what it learnt was not searched: “For engineers” names it."));
  return made;
}

function inDetail({ checkpoint, datasets, unindexed, unsearched, spans, missing }) {
  const made = [];
  if (datasets.length) made.push(note(`Searched: ${datasets.join(", ")}.`));
  if (!missing && !checkpoint) made.push(todo());
  const reasons = unsearched.map(({ checkpoint, reason }) => (reason.includes(checkpoint) ? reason : `${checkpoint}: ${reason}`));
  for (const each of [...unindexed.map((name) => `${name} has no index.`), ...reasons]) made.push(note(`Not searched: ${each}`));
  const names = new Set(spans.flatMap(({ documents }) => documents.map(({ name }) => name)));
  for (const name of names) made.push(element("p", {}, element("code", {}, `tutti trace ${name}`)));
  return made.length ? made : [note("Nothing was searched.")];
}

function todo() {
  const command = element("code", {}, "tutti run RECIPE --set index=true");
  const made = element("p", { class: "soft" }, "To search the texts of its first training, run its recipe again with an index: ", command);
  made.append(". What was done before is reused. Conversations and preferences have no index, nor has data that is not on this platform.");
  return made;
}

function nothing(least) {
  const means = "The answer was not copied from there in long parts. It can still repeat short ones, or say in other words what the model learnt.";
  return [note(`No ${least} or more tokens in a row occur in the data that was searched.`), note(means)];
}

function list(spans) {
  const made = element("ul", { class: "spans" });
  for (const { text, tokens, count, documents } of spans) {
    const words = plain(element("q", { dir: "auto" }), text);
    const item = element("li", {}, words, note(`${tokens} tokens, in ${count.toLocaleString("en")} place${count === 1 ? "" : "s"}`));
    for (const { name, source, steps } of documents) {
      const read = steps ? `, read in ${steps.toLocaleString("en")} step${steps === 1 ? "" : "s"}` : "";
      item.append(element("p", {}, plain(element("span"), source || name), read));
    }
    made.append(item);
  }
  return made;
}

function note(words) {
  return element("p", { class: "soft" }, words);
}
