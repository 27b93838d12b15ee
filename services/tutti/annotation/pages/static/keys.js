// Keys: one press counts once, however long it is held; digits and letters are found on any layout. Each annotator may
// give the actions other letters, which are kept in this browser.

import { element } from "./markdown.js";
import { say } from "./words.js";

const KEPT = "tutti/annotation/keys";
const FIRST = { undo: "z", differences: "d", guideline: "g", flag: "f", skip: "s", comment: "c", write: "e", pause: "p", ask: "a", own: "m", keys: "?" };

const DIGIT = /^(?:Digit|Numpad)([0-5])$/;
const LETTER = /^[a-z?]$/;

// Calls `pressed(key)` with "0" to "5", a small letter, "?" or "Enter"; it returns whether the key was used.
export function listenToKeys(pressed) {
  const down = new Set();
  addEventListener("keyup", (event) => down.delete(event.code));
  addEventListener("blur", () => down.clear());
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest?.("textarea, select, dialog")) return;
    const key = keyOf(event);
    if (!key || (key === "Enter" && event.target.closest?.("button, input, a, summary"))) return;
    if (event.repeat || down.has(event.code)) {
      if (key !== "Enter") event.preventDefault();
      return;
    }
    down.add(event.code);
    if (pressed(key)) event.preventDefault();
  });
}

function keyOf(event) {
  const digit = DIGIT.exec(event.code);
  if (digit && !event.shiftKey) return digit[1];
  if (event.key === "Enter") return event.key;
  const key = event.key.toLowerCase();
  if (LETTER.test(key)) return key;
  // The key of a layout with other letters, by its place.
  return event.key.length === 1 && event.key > "\u007f" && event.code.startsWith("Key") ? event.code.at(-1).toLowerCase() : "";
}

// Which key stands for which action.
export class Keymap {
  constructor() {
    this.keys = { ...FIRST };
    try {
      const kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
      for (const action of Object.keys(FIRST)) if (/^[a-z]$/.test(kept[action])) this.keys[action] = kept[action];
    } catch {
      return; // what is stored was not written by this page
    }
    if (new Set(Object.values(this.keys)).size < Object.keys(FIRST).length) this.keys = { ...FIRST };
  }

  actionOf(key) {
    return Object.keys(this.keys).find((action) => this.keys[action] === key);
  }

  keyOf(action) {
    return this.keys[action].toUpperCase();
  }

  // Gives an action a letter; the action that had it takes the other's.
  give(action, letter) {
    const other = this.actionOf(letter);
    if (other) this.keys[other] = this.keys[action];
    this.keys[action] = letter;
    this.#store();
  }

  reset() {
    this.keys = { ...FIRST };
    this.#store();
  }

  #store() {
    try {
      localStorage.setItem(KEPT, JSON.stringify(this.keys));
    } catch {
      return; // they last as long as the page
    }
  }
}

// All keys; a letter is changed by pressing its button and then another letter. `changed()` is called after that.
export function keysTable(keymap, scores, changed) {
  const list = element("dl");
  const buttons = new Map();
  const label = (action) => {
    const button = buttons.get(action);
    button.textContent = keymap.keyOf(action);
    button.setAttribute("aria-label", say("changeKey", { key: keymap.keyOf(action), action: say(action) }));
  };
  const labels = () => {
    for (const action of buttons.keys()) label(action);
    changed();
  };
  scores.forEach((score, at) => list.append(element("dt", {}, element("kbd", {}, `${(at + 1) % 6}`)), element("dd", { dir: "auto" }, say(`${score}`))));
  for (const action of Object.keys(FIRST)) {
    const isFixed = action === "keys";
    const key = element(isFixed ? "kbd" : "button", isFixed ? {} : { type: "button", class: "key" }, keymap.keyOf(action));
    list.append(element("dt", {}, key), element("dd", { dir: "auto" }, say(action)));
    if (isFixed) continue;
    buttons.set(action, key);
    label(action);
    key.addEventListener("click", () => (key.textContent = "…"));
    key.addEventListener("blur", () => label(action));
    key.addEventListener("keydown", (event) => {
      const letter = keyOf(event);
      if (key.textContent !== "…" || !/^[a-z]$/.test(letter) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keymap.give(action, letter);
      labels();
    });
  }
  const first = element("button", { type: "button" }, say("firstKeys"));
  first.addEventListener("click", () => {
    keymap.reset();
    labels();
  });
  return element("div", {}, element("p", { dir: "auto" }, say("keyScore")), list, element("p", { class: "soft", dir: "auto" }, say("changeKeys")), first);
}
