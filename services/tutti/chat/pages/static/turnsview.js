// The messages of a conversation as elements. Texts of people are shown as they are, those of models as Markdown.

import { continued, ended } from "./endings.js";
import { Growing } from "./growing.js";
import { element, markdown, plain } from "./markdown.js";
import { WORDS } from "./reporting.js";
import { hidden, refused, siblings } from "./tree.js";

// `room` has the number of the first messages that do not fit (`unsent`), and the tokens that are kept free for the answer
// (`answer`). `acts` has a function for each button: copy, again, why, edit, choose, report; and `reported`, a map of words by
// message.
export function turns(conversation, shown, room, acts) {
  const made = [];
  const leftOut = refused(shown);
  for (const [at, message] of shown.entries()) {
    const isUnsent = leftOut.has(message.id) || at < room.unsent;
    const beside = siblings(conversation.messages, message);
    made.push(message.role === "user" ? person(message, beside, isUnsent, acts) : answer(message, beside, acts));
    if (at + 1 === room.unsent) made.push(gone(room));
  }
  const later = hidden(conversation.messages, shown);
  if (later) made.push(elsewhere(later, acts));
  return made;
}

// Moves the focus to the button with this label in a message, or to the message itself.
export function focusIn(parent, message, label = null) {
  const article = parent.querySelector(`[data-message="${CSS.escape(message)}"]`);
  const buttons = [...(article?.querySelectorAll("button") ?? [])];
  (buttons.find((each) => labelOf(each) === label && !each.disabled) ?? article)?.focus({ preventScroll: true });
}

// Remembers where in the messages the focus is; returns a function that moves it there after they were made again.
export function heldFocus(parent) {
  const focused = document.activeElement;
  const message = parent.contains(focused) && focused.closest("[data-message]")?.dataset.message;
  return message ? () => focusIn(parent, message, labelOf(focused)) : () => {};
}

function labelOf(focused) {
  return focused.getAttribute("aria-label") ?? focused.textContent;
}

// The text of an answer that grows, in an article that has none yet.
export function growing(article) {
  return new Growing(article.querySelector(".words"));
}

function gone({ unsent, answer }) {
  const [words, them] = unsent === 1 ? ["The message above does", "it"] : [`The ${unsent} messages above do`, "them"];
  const why = `beside the room for the answer, ${answer} tokens: the model will not see ${them}.`;
  return element("p", { class: "gone soft" }, `${words} not fit any more ${why}`);
}

function elsewhere({ count, version }, acts) {
  const words = count === 1 ? "1 later message is" : `${count} later messages are`;
  const show = button("Show them", () => acts.choose(version));
  return element("p", { class: "gone soft" }, `${words} kept with another version of ${version.role === "user" ? "your message" : "the answer"}. `, show);
}

function person(message, beside, isUnsent, acts) {
  const text = plain(element("p", { class: "raw", dir: "auto" }), message.text);
  const words = element("div", { class: isUnsent ? "said unsent" : "said" }, text);
  const tools = element("div", { class: "tools" }, ...versions(message, beside, acts));
  tools.append(button("Copy", (event) => acts.copy(message, event.currentTarget)), button("Edit", () => acts.edit(message)));
  words.append(tools);
  return element("article", { class: "person", "aria-label": "You", "data-message": message.id, tabindex: "-1" }, words);
}

function answer(message, beside, acts) {
  const isRunning = message.state === "running";
  const attributes = { class: "answer", "aria-label": message.model, "data-message": message.id, "aria-busy": `${isRunning}`, tabindex: "-1" };
  const made = element("article", attributes);
  if (message.given) made.append(element("p", { class: "soft continued" }, continued(message)));
  const words = element("div", { class: "words" }, markdown(message.text));
  made.append(words);
  if (isRunning) return made;
  const end = ended(message);
  if (message.state === "failed") made.append(element("p", { class: "failed" }, `${end} “Again” asks once more.`));
  else if (end) made.append(element("p", { class: "soft" }, end));
  if (message.finished === "content_filter") made.append(reporting(message, acts));
  const tools = element("div", { class: "tools" }, ...versions(message, beside, acts));
  tools.append(button("Copy", (event) => acts.copy(message, event.currentTarget)), button("Again", () => acts.again(message)));
  tools.append(button("Why", () => acts.why(message), { "data-key": "Y" }));
  made.append(tools);
  return made;
}

function reporting(message, acts) {
  const { language: lang, id } = message;
  if (acts.reported.has(id)) return element("p", { class: "soft", lang }, acts.reported.get(id));
  return element("p", {}, button(WORDS[lang].report, () => acts.report(message), { lang }));
}

function versions(message, beside, acts) {
  if (beside.length < 2) return [];
  const at = beside.findIndex((each) => each.id === message.id);
  const move = (label, sign, to) => {
    const made = button(sign, () => acts.choose(beside[to], label), { "aria-label": label });
    made.disabled = to < 0 || to >= beside.length;
    return made;
  };
  return [
    move("Version before", "‹", at - 1),
    element("span", {}, `${at + 1} of ${beside.length}`),
    move("Version after", "›", at + 1),
  ];
}

function button(words, does, attributes = {}) {
  const made = element("button", { type: "button", ...attributes }, words);
  made.onclick = does;
  return made;
}
