// Where the words of an answer occur in the training data, as elements that fill once `load()` has answered.

import { CallFailed } from "./calls.js";
import { said } from "./failures.js";
import { element, plain } from "./markdown.js";

export function overlap(load) {
  const made = element("div", { "aria-live": "polite" }, note("The training data is searched …"));
  load().then(
    (found) => made.replaceChildren(...shown(found)),
    (failure) => {
      if (!(failure instanceof CallFailed)) throw failure;
      made.replaceChildren(note(`It could not be searched: ${said(failure)}. Open the drawer again to search again.`));
    },
  );
  return made;
}

function shown({ checkpoint, datasets, unindexed, unsearched, spans, least, truncated, missing }) {
  const made = [];
  if (missing) made.push(note(`It could not be searched: ${missing}. Open the drawer again to search again.`));
  else if (!checkpoint) made.push(...unsearchable());
  else if (!spans.length) made.push(...nothing(datasets, least));
  else made.push(note("Overlap, not proof of influence: these words occur in what it learnt."), list(spans));
  if (truncated) made.push(note("There are more spans, which are shorter."));
  for (const name of unindexed) made.push(note(`Not searched: ${name} has no index.`));
  if (unsearched.length) made.push(reasons(unsearched));
  return made;
}

function unsearchable() {
  const command = element("code", {}, "tutti run RECIPE --set index=true");
  const todo = element("p", { class: "soft" }, "To search the texts of its first training, run its recipe again with an index: ", command);
  todo.append(". What was done before is reused. Conversations and preferences have no index, nor has data that is not on this platform.");
  return [note("Nothing was searched, so the answer may repeat what the model learnt or not: that data has no index."), todo];
}

function reasons(unsearched) {
  const count = unsearched.length === 1 ? "1 training was" : `${unsearched.length} trainings were`;
  const list = unsearched.map(({ checkpoint, reason }) => element("li", {}, reason.includes(checkpoint) ? reason : `${checkpoint}: ${reason}`));
  return element("details", {}, element("summary", { class: "soft" }, `${count} not searched`), element("ul", { class: "spans soft" }, ...list));
}

function nothing(datasets, least) {
  const means = "The answer was not copied from there in long parts. It can still repeat short ones, or say in other words what the model learnt.";
  return [note(`No ${least} or more tokens in a row occur in ${datasets.join(", ")}.`), note(means)];
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
