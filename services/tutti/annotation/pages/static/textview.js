// Texts of prompts and answers as DOM nodes: Markdown where they are short enough, plain pieces where they are very long.

import { differences } from "./differences.js";
import { element, markdown, plain } from "./markdown.js";
import { say } from "./words.js";

const LONGEST_MARKDOWN = 60_000;
const LONGEST_SHOWN = 20_000;
const LONGEST_COMPARED = 200_000;
const PIECE = 4_000;

// Fills `parent` with a text.
export function showText(parent, text) {
  parent.replaceChildren();
  if (!text.trim()) {
    parent.append(element("p", { class: "soft" }, say("empty")));
  } else if (text.length <= LONGEST_MARKDOWN) {
    parent.append(markdown(text));
  } else {
    parent.append(pieces(text.slice(0, LONGEST_SHOWN)));
    const whole = element("button", { type: "button" }, say("whole", { count: text.length.toLocaleString() }));
    const rest = element("p", { class: "soft" }, `${say("shortened")} `, whole);
    whole.addEventListener("click", () => rest.replaceWith(pieces(text.slice(LONGEST_SHOWN))));
    parent.append(rest);
  }
}

export function showPrompt(parent, messages) {
  parent.replaceChildren(
    ...messages.map(({ role, content }) => {
      const body = element("div", { dir: "auto" });
      showText(body, content);
      return element("div", { class: "turn" }, element("span", { class: "speaker" }, say(role)), body);
    }),
  );
  parent.scrollTop = 0;
}

// Fills both with the plain texts, and marks what only one of them has.
export function showDifferences(left, right, [one, other]) {
  const found = one.length + other.length > LONGEST_COMPARED ? [[-1, one], [1, other]] : differences(one, other);
  for (const [parent, own] of [[left, -1], [right, 1]]) {
    const text = element("div", { class: "raw", dir: "auto" });
    if (one === other) text.append(element("p", { class: "soft" }, say("sameText")));
    for (const [kind, words] of found) {
      if (kind === 0) plain(text, words);
      else if (kind === own) text.append(plain(element("mark"), words));
    }
    parent.replaceChildren(text);
  }
}

function pieces(text) {
  const made = document.createDocumentFragment();
  for (let at = 0, end = 0; at < text.length; at = end) {
    end = at + PIECE;
    if (isHalf(text.charCodeAt(end - 1))) end += 1;
    made.append(plain(element("div", { class: "raw", dir: "auto" }), text.slice(at, end)));
  }
  return made;
}

function isHalf(unit) {
  return unit >= 0xd800 && unit < 0xdc00;
}
