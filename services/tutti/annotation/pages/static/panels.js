// Texts that are shown in place of a pair: before the first one, when there is none, and what is stored of an annotator.

import { element, markdown } from "./markdown.js";
import { showChange } from "./revision.js";
import { showText } from "./textview.js";
import { say } from "./words.js";

const paragraph = (text) => element("p", { dir: "auto" }, text);

export function guidelineText(standing) {
  const text = element("div", { dir: "auto" });
  text.append(markdown(standing?.guideline.text ?? ""));
  return text;
}

// The guideline and the content warning; `leave` is called by its button.
export function introduction(standing, leave) {
  const words = standing.state === "qualifying" ? say("beginWords", standing.qualification) : say("beginPlain");
  const body = element("div", {}, paragraph(words));
  if (standing.warning) {
    const button = element("button", { type: "button" }, say("leave"));
    button.addEventListener("click", leave);
    const told = element("p", { dir: "auto" }, element("strong", {}, say("warning")), ` ${standing.warning}`);
    body.append(element("div", { class: "warning" }, told, paragraph(say("leaveWords")), button));
  }
  body.append(guidelineText(standing));
  return body;
}

export function changedGuideline({ before, text }) {
  const change = element("div");
  change.dir = "auto";
  showChange(change, before.text, text);
  return element("div", {}, paragraph(say("guidelineChangedWords")), change);
}

// The right answer of a qualifying pair, above the pair.
export function explanation(better, words, pair) {
  const body = element("div", {}, paragraph(say(`better_${better}`)));
  if (words) body.append(paragraph(words));
  ["left", "right"].forEach((side, at) => {
    const text = element("div", { class: "answer" });
    showText(text, pair.answers[at]);
    body.append(element("h3", {}, say(side)), text);
  });
  return body;
}

// What the annotator wrote to the owner, with the answers.
export function conversation(messages) {
  const list = element("dl", { class: "conversation" });
  for (const { words, answer } of messages) {
    list.append(element("dt", {}, say("you")), element("dd", { dir: "auto", class: "raw" }, words));
    list.append(element("dt", {}, say("owner")), element("dd", { dir: "auto", class: answer ? "raw" : "soft" }, answer || say("unanswered")));
  }
  return element("div", {}, element("p", { class: "soft", dir: "auto" }, say("askWords")), list);
}

// Why there is no pair, and when there may be one; `undo` is called by a button while there is something to undo, and
// `askOwner` by another one.
export function waiting({ state, reason, done, agreement, code, weight, fast, unread }, undo = null, askOwner = null) {
  const body = element("div");
  const add = (text) => text && body.append(paragraph(text));
  if (state === "no_pairs" && code) add(say("closedWords", { done }));
  else if (state !== "closed") add(reason);
  if (state === "closed") add(say("closedWords", { done }));
  if (state === "no_pairs") add(say("noPairsWhen"));
  if (state === "paused") add(say("pausedWhen"));
  if (agreement) add(say("agreement", agreement));
  if (weight) add(say("weighed", weight));
  if (fast) add(say("fast", { count: fast }));
  if (unread) add(say("unread", unread));
  if (code) body.append(element("p", { dir: "auto" }, element("strong", {}, say("code", { code }))));
  if (undo && state === "no_pairs") {
    const button = element("button", { type: "button" }, say("undoLast"));
    button.addEventListener("click", undo);
    body.append(paragraph(say("undoWords")), element("p", {}, button));
  }
  if (askOwner) {
    const button = element("button", { type: "button" }, say("ask"));
    button.addEventListener("click", askOwner);
    body.append(element("p", {}, button));
  }
  return body;
}

// What is stored of the annotator; `take` and `leave` are called by their buttons.
export function ownData(campaign, { code, weight, fast, unread }, take, leave) {
  const data = element("a", { href: `/annotation/${encodeURIComponent(campaign)}/own.json`, download: "own.json" }, say("ownData"));
  const body = element("div", {}, paragraph(say("ownWords")), element("p", {}, data));
  if (code) body.append(paragraph(say("code", { code })));
  if (weight) body.append(paragraph(say("weighed", weight)));
  if (fast) body.append(paragraph(say("fast", { count: fast })));
  if (unread) body.append(paragraph(say("unread", unread)));
  for (const [word, then] of [["take", take], ["withdraw", leave]]) {
    const button = element("button", { type: "button" }, say(word));
    button.addEventListener("click", then);
    body.append(element("p", {}, button));
  }
  return body;
}
