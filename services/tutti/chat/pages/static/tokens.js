// The tokens of an answer, and the likeliest ones in the place of each, with which the answer can be continued.
//
// The tokens are one tab stop: arrow keys, Home and End move in them.

import { CallFailed } from "./calls.js";
import { sentence } from "./failures.js";
import { element, plain } from "./markdown.js";

const SPACES = { " ": "␣", "\n": "↵", "\t": "⇥" };

// `calls`: `tokens()`, `place(at)` and `branch(at, token)`, which ends with the page showing the branch. `given` is the number
// of tokens with which an answer continues another one.
export class TokenView {
  #tokens = [];
  #buttons = [];
  #at = -1; // the place that is shown

  constructor(calls, given) {
    this.calls = calls;
    this.given = given;
    this.open = element("button", { type: "button", class: "verify", "data-key": "T" }, "Show its tokens");
    this.open.onclick = () => this.show();
    this.status = element("p", { "aria-live": "polite" });
    this.bar = element("div", { class: "tokens", role: "toolbar", "aria-label": "Tokens of the answer", dir: "auto", hidden: "" });
    this.bar.onkeydown = (event) => this.#move(event);
    this.place = element("div");
    this.parts = [this.open, this.status, this.bar, this.place];
  }

  // Loads the tokens once, and moves the focus to them.
  async show() {
    if (this.#buttons.length) return this.#buttons.find((each) => each.tabIndex === 0).focus();
    const found = await this.#tried(() => this.calls.tokens());
    if (!found) return;
    this.open.hidden = true;
    this.#tokens = found.tokens;
    this.status.textContent = this.#tokens.length ? "Choose a token to see what else could be in its place." : "No token of it is shown.";
    this.#buttons = this.#tokens.map((token, at) => this.#button(token, at));
    this.bar.replaceChildren(...this.#buttons);
    this.bar.hidden = !this.#tokens.length;
    this.#buttons[0]?.focus();
  }

  #button(token, at) {
    const byHand = at === this.given - 1;
    const label = `Token ${at + 1} of ${this.#tokens.length}${byHand ? ", chosen by hand" : ""}: ${spoken(token)}`;
    const look = byHand ? { class: "by-hand" } : {};
    const made = face(element("button", { type: "button", ...look, "aria-label": label, "aria-pressed": "false", tabindex: at ? "-1" : "0" }), token);
    made.onclick = () => this.#choose(at);
    return made;
  }

  #move(event) {
    const at = this.#buttons.indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: this.#buttons.length - 1 }[event.key];
    if (at < 0 || !this.#buttons[to]) return;
    event.preventDefault();
    this.#stop(to);
    this.#buttons[to].focus();
  }

  #stop(to) {
    for (const [at, each] of this.#buttons.entries()) each.tabIndex = at === to ? 0 : -1;
  }

  async #choose(at) {
    this.#stop(at);
    this.#at = at;
    for (const [each, button] of this.#buttons.entries()) button.setAttribute("aria-pressed", `${each === at}`);
    this.status.textContent = "The model computes what could be there …";
    const found = await this.#tried(() => this.calls.place(at));
    if (!found || this.#at !== at) return;
    const withheld = found.withheld ? ` The filter withholds ${found.withheld} more.` : "";
    this.status.textContent = `What could be in place ${at + 1}, with probabilities at temperature 1.${withheld}`;
    const list = element("ol", { class: "likeliest" });
    for (const token of found.likeliest) list.append(this.#likely(token, at, token.id === found.chosen));
    this.place.replaceChildren(list);
    list.scrollIntoView({ block: "nearest" });
  }

  #likely(token, at, isChosen) {
    const share = percent(token.probability);
    const name = face(element("span", { class: "token", dir: "auto" }), token);
    const meter = element("meter", { min: "0", max: "1", value: `${token.probability}`, "aria-hidden": "true" });
    const made = element("li", {}, name, meter, element("span", { class: "number" }, share));
    if (isChosen) {
      made.append(element("span", { class: "soft" }, "written"));
      return made;
    }
    const label = `Continue with ${spoken(token)}, probability ${share}`;
    const button = element("button", { type: "button", "aria-label": label }, "Continue");
    button.onclick = () => this.#tried(() => this.calls.branch(at, token.id));
    made.append(button);
    return made;
  }

  async #tried(work) {
    try {
      return await work();
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      this.status.textContent = sentence(failure);
      return null;
    }
  }
}

function face(parent, { text, name }) {
  const shown = text.replace(/[ \n\t]/g, (each) => SPACES[each]);
  return shown ? plain(parent, shown) : (parent.append(element("em", {}, name)), parent);
}

function spoken({ text, name }) {
  return text.trim() ? text : name || "white space";
}

function percent(probability) {
  return probability < 0.001 ? "< 0.1 %" : `${(100 * probability).toFixed(1)} %`;
}
