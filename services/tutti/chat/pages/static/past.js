// What a model learnt, as the record has it, and prompts of its training as buttons.

import { CallFailed } from "./calls.js";
import { element, plain } from "./markdown.js";

export class Past {
  #name; // of the model that is shown

  constructor(calls, words, prompts, choose) {
    this.calls = calls;
    this.words = words;
    this.prompts = prompts;
    this.choose = choose;
  }

  async show(name) {
    if (name === this.#name) return;
    this.#name = name;
    this.words.textContent = "";
    this.prompts.replaceChildren();
    if (!name) return;
    try {
      const found = await this.calls.get(`past/${encodeURIComponent(name)}`);
      if (name !== this.#name) return;
      this.words.textContent = told(found);
      this.prompts.replaceChildren(...found.prompts.map((each) => this.#button(each)));
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      this.words.textContent = `What it learnt could not be read: ${failure.message}`;
    }
  }

  #button(prompt) {
    const button = plain(element("button", { type: "button", dir: "auto" }), prompt);
    button.onclick = () => this.choose(prompt);
    return button;
  }
}

function told({ trainings, whole }) {
  if (!trainings.length) return "What it learnt is not recorded here: it was trained elsewhere.";
  const words = trainings.map(({ program, steps, data }) => {
    return `${program} (${data ? `${data}, ` : ""}${steps.toLocaleString("en")} steps)`;
  });
  const rest = whole ? "It learnt from nothing else, so it cannot know more." : "What it learnt before is not recorded here.";
  return `Its trainings: ${words.join(", then ")}. ${rest}`;
}
