// The answer that is being made: its stream is read by number of pieces, over streams that break, and its text grows.

import { CallFailed } from "./calls.js";
import { growing } from "./turnsview.js";

const AGAIN_MILLISECONDS = 1000;

// `page`: `article()` is the element of the answer, `latest()` loads the conversation or resolves with null, `grow(work)` runs
// what makes the page longer; `begun()`, `ended(conversation, answer)` and `loggedOut()` are called when that has happened.
export class Following {
  #mine = null; // { answer, controller, text, next, article, view }

  constructor(calls, page) {
    this.calls = calls;
    this.page = page;
  }

  stop() {
    this.#mine?.controller.abort();
    this.#mine = null;
  }

  async follow({ answer }) {
    if (this.#mine?.answer === answer) return this.#show();
    this.stop();
    const mine = (this.#mine = { answer, controller: new AbortController(), text: "", next: 0 });
    const { signal } = mine.controller;
    this.page.begun();
    let ended = false;
    const told = (event) => {
      if (event.text !== undefined) {
        mine.text += event.text;
        mine.next = event.next;
        this.#show(event.text);
      }
      ended ||= Boolean(event.ended);
    };
    while (!ended && !signal.aborted) {
      try {
        await this.calls.follow(answer, mine.next, told, signal);
      } catch (failure) {
        if (!(failure instanceof CallFailed)) throw failure;
        if (failure.status === 401) return this.page.loggedOut();
      }
      if (!ended && !signal.aborted) await soon();
    }
    while (!signal.aborted) {
      const conversation = await this.page.latest();
      if (signal.aborted) return;
      if (conversation) {
        this.#mine = null;
        return this.page.ended(conversation, answer);
      }
      await soon();
    }
  }

  // Adds a text to the answer; all of it, where its element is new.
  #show(text = "") {
    const article = this.page.article();
    const mine = this.#mine;
    if (!article || !mine) return;
    const isNew = mine.article !== article;
    if (isNew) Object.assign(mine, { article, view: growing(article) });
    this.page.grow(() => mine.view.push(isNew ? mine.text : text));
  }
}

function soon() {
  return new Promise((resolve) => setTimeout(resolve, AGAIN_MILLISECONDS));
}
