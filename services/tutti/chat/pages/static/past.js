// What one can ask a model, and what it learnt, as the record has it, and prompts of its training as buttons.

import { CallFailed } from "./calls.js";
import { element, plain } from "./markdown.js";

const LIST = new Intl.ListFormat("en-GB");

export class Past {
  #name; // of the model that is shown

  // `parts` are the elements of the subjects, of the words, of the trainings, and of the prompts.
  constructor(calls, parts, choose) {
    Object.assign(this, parts);
    this.calls = calls;
    this.choose = choose;
  }

  async show(name) {
    if (name === this.#name) return;
    this.#name = name;
    this.subjects.textContent = this.words.textContent = this.trainings.textContent = "";
    this.prompts.replaceChildren();
    if (!name) return;
    try {
      const found = await this.calls.get(`past/${encodeURIComponent(name)}`);
      if (name !== this.#name) return;
      plain(this.subjects, about(found));
      plain(this.words, told(found));
      this.trainings.textContent = steps(found);
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

// Empty where the record has no subjects.
function about({ subjects }) {
  return subjects.length ? `You can ask it about ${LIST.format(subjects)}.` : "";
}

// What it can and cannot, as far as the record says it.
function told({ trainings, whole, often }) {
  if (!trainings.length) return "What it learnt is not recorded here: it was trained elsewhere.";
  const data = trainings.map((each) => each.data || "data that cannot be read here");
  const learnt = data.filter((each, at) => each !== data[at - 1]).join(", then from ");
  const rest = whole ? "From nothing else, so it cannot know more." : "What it learnt before is not recorded here.";
  const words = often ? ` ${Math.round(100 * often.share)} % of the conversations begin with the answer “${often.answer}”` : "";
  return `It learnt from ${learnt}. ${rest}${words}`;
}

function steps({ trainings }) {
  return trainings.map(({ program, steps }) => `${program}, ${steps.toLocaleString("en")} steps`).join("; ");
}
