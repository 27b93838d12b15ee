// The tokens of the message that is typed, and those that are left of what the model can read.

import { CallFailed } from "./calls.js";
import { sentence } from "./failures.js";

const COUNT_MILLISECONDS = 200;

// `turn()` is what would be sent, or null; `element` shows the tokens; `told(found)` is called with the answer.
export class Room {
  #waiting = 0;

  constructor(calls, element, turn, told) {
    Object.assign(this, { calls, element, turn, told });
  }

  // Soon, since a person may go on typing.
  count() {
    clearTimeout(this.#waiting);
    this.#waiting = setTimeout(() => this.#count(), COUNT_MILLISECONDS);
  }

  async #count() {
    const turn = this.turn();
    if (!turn) return;
    try {
      const found = await this.calls.post("count", turn);
      const { conversation, revision } = this.turn() ?? {};
      if (conversation !== turn.conversation || revision !== turn.revision) return;
      this.#show(`${typed(found)}${found.length - found.tokens} tokens left${unsent(found)}`, { isFull: false });
      this.told(found);
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      const isLong = failure.field === "text" && failure.seen.includes(" tokens");
      this.#show(isLong ? `Too long: ${failure.seen.replaceAll("'", "")}` : sentence(failure), { isFull: true });
    }
  }

  #show(words, { isFull }) {
    this.element.classList.toggle("full", isFull);
    this.element.textContent = words;
  }
}

function typed({ typed: count }) {
  return count ? `${count} typed, ` : "";
}

function unsent({ unsent: count, answer }) {
  if (!count) return "";
  return `; room for the answer: ${answer} tokens; the ${count === 1 ? "oldest message is" : `${count} oldest messages are`} not sent`;
}
