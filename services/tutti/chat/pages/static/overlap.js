// Where the words of an answer occur in the training data, as elements that fill once `load()` has answered.

import { CallFailed } from "./calls.js";
import { element, plain } from "./markdown.js";

export function overlap(load) {
  const made = element("div", { "aria-live": "polite" }, note("The training data is searched …"));
  load().then(
    (found) => made.replaceChildren(...shown(found)),
    (failure) => {
      if (!(failure instanceof CallFailed)) throw failure;
      made.replaceChildren(note(`It could not be searched: ${failure.message}`));
    },
  );
  return made;
}

function shown({ checkpoint, datasets, unindexed, unsearched, spans, truncated, missing }) {
  const made = [];
  if (missing) made.push(note(`It could not be searched: ${missing}.`));
  else if (!checkpoint) made.push(note("There is no index of the data that it learnt, so nothing was searched."));
  else if (!spans.length) made.push(note(`No span of it occurs in ${datasets.join(", ")}.`));
  else made.push(note("Overlap, not proof of influence: these words occur in what it learnt."), list(spans));
  if (truncated) made.push(note("There are more spans, which are shorter."));
  for (const name of unindexed) made.push(note(`Not searched: ${name} has no index.`));
  for (const { checkpoint: name, reason } of unsearched) made.push(note(`Not searched: ${name}. ${reason}`));
  return made;
}

function list(spans) {
  const made = element("ul", { class: "spans" });
  for (const { text, tokens, count, documents } of spans) {
    const words = plain(element("q", { dir: "auto" }), text);
    const item = element("li", {}, words, note(`${tokens} tokens, in ${count.toLocaleString("en")} place${count === 1 ? "" : "s"}`));
    for (const { name, source, steps } of documents) {
      const read = steps ? `, read in ${steps.toLocaleString("en")} step${steps === 1 ? "" : "s"}` : "";
      item.append(element("p", {}, plain(element("span"), source || name), read, " ", element("code", {}, `tutti trace ${name}`)));
    }
    made.append(item);
  }
  return made;
}

function note(words) {
  return element("p", { class: "soft" }, words);
}
