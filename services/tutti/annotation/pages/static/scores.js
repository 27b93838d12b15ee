// The questions below a pair: a group of radio buttons for each axis. One axis is active; it takes the next key.

import { element, plain } from "./markdown.js";
import { say } from "./words.js";

export const SCORES = [-2, -1, 0, 1, 2, "both_bad"];
export const DIGITS = ["1", "2", "3", "4", "5", "0"];

export class Scores {
  // `changed` is called when an answer was selected and others are missing or not submitted.
  constructor(parent, rule, changed) {
    this.parent = parent;
    this.rule = rule;
    this.axes = [];
    this.groups = [];
    this.active = 0;
    parent.addEventListener("change", changed);
    this.changed = changed;
  }

  show(axes) {
    this.axes = axes;
    this.groups = axes.map(({ name }, at) => {
      const scale = element("div", { class: "scale", dir: "ltr" });
      SCORES.forEach((score, index) => {
        const input = element("input", { type: "radio", name: `axis-${at}`, value: `${score}` });
        const word = element("span", { dir: "auto" }, say(`${score}`));
        scale.append(element("label", {}, input, word, element("kbd", { "aria-hidden": "true" }, DIGITS[index])));
      });
      const group = element("fieldset", {}, plain(element("legend", { dir: "auto" }), name), scale);
      group.addEventListener("focusin", () => this.#activate(at));
      return group;
    });
    this.parent.replaceChildren(...this.groups);
    this.clear();
  }

  clear() {
    for (const input of this.parent.querySelectorAll("input")) input.checked = false;
    this.#activate(0);
  }

  // Answers the active axis and moves on; whether all are answered.
  answer(score) {
    const group = this.groups[this.active];
    group.querySelector(`input[value="${score}"]`).checked = true;
    const next = this.#unanswered();
    if (next < 0) return true;
    this.#activate(next);
    this.changed();
    return false;
  }

  // The answers by axis that are selected so far.
  get selected() {
    const found = this.axes.map(({ name }, at) => [name, this.groups[at].querySelector(":checked")?.value]);
    return Object.fromEntries(found.filter(([, value]) => value !== undefined));
  }

  // Selects answers, and makes the first axis without one the active one.
  select(selected) {
    this.clear();
    this.axes.forEach(({ name }, at) => {
      for (const input of this.groups[at].querySelectorAll("input")) input.checked = input.value === selected[name];
    });
    this.#activate(Math.max(0, this.#unanswered()));
  }

  // The answers by axis; null while one is missing, which becomes the active axis.
  answers() {
    const missing = this.#unanswered();
    if (missing >= 0) {
      this.#activate(missing);
      this.groups[missing].querySelector("input").focus();
      return null;
    }
    const values = this.groups.map((group) => group.querySelector(":checked").value);
    return Object.fromEntries(this.axes.map(({ name }, at) => [name, values[at] === "both_bad" ? values[at] : Number(values[at])]));
  }

  #unanswered() {
    return this.groups.findIndex((group) => !group.querySelector(":checked"));
  }

  #activate(at) {
    this.active = at;
    this.groups.forEach((group, index) => group.classList.toggle("active", index === at));
    this.rule.replaceChildren();
    plain(this.rule, this.axes[at]?.rule ?? "");
  }
}
