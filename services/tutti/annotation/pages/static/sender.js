// Sends the outbox until the server has confirmed all of it, in order, again after every failure.

import { CallFailed, OFFLINE, REFUSED, SIGNED_OUT } from "./calls.js";

const MOST = 50;
const MOST_CHARACTERS = 200_000; // of a call, whose bytes the server limits
const FIRST_SECONDS = 0.5;
const LAST_SECONDS = 15;

// The first of these judgements, as many as one call takes.
export function batchOf(judgements) {
  let left = MOST_CHARACTERS;
  return judgements.slice(0, MOST).filter((each, at) => (left -= JSON.stringify(each).length) > 0 || at === 0);
}

export class Sender {
  // `told.received(receipt)` is called with each answer, `told.changed()` whenever the standing below has changed.
  constructor(calls, outbox, told) {
    this.calls = calls;
    this.outbox = outbox;
    this.told = told;
    this.trouble = ""; // "", OFFLINE, SIGNED_OUT or REFUSED
    this.words = "";
    this.isRunning = false;
    this.isWoken = false; // whether there may be something to send
    this.wakers = [];
    for (const event of ["online", "focus", "pageshow"]) addEventListener(event, () => this.wake());
  }

  // Send now, also where the next attempt would be later.
  wake() {
    for (const each of this.wakers.splice(0)) each();
    this.isWoken = true;
    if (!this.isRunning) this.#run();
  }

  async #run() {
    this.isRunning = true;
    let seconds = FIRST_SECONDS;
    while (this.isWoken) {
      this.isWoken = false;
      const batch = await this.#batch();
      if (!batch.length) continue;
      this.isWoken = true;
      try {
        const receipt = await this.calls.post("judgements", { judgements: batch });
        this.#settle(batch, receipt);
        this.#stand("");
        seconds = FIRST_SECONDS;
      } catch (failure) {
        if (!(failure instanceof CallFailed)) throw failure;
        this.#stand(failure.kind, failure.message);
        await this.#wait(failure.seconds || seconds);
        seconds = Math.min(2 * seconds, LAST_SECONDS);
        if (failure.kind !== OFFLINE) await this.#learn();
      }
    }
    this.isRunning = false;
    this.#stand("");
  }

  // Also judgements of other tabs.
  async #batch() {
    await this.outbox.refresh();
    return batchOf(this.outbox.all());
  }

  // Nothing is left of a batch that the server has answered: each is accepted or refused.
  #settle(batch, receipt) {
    this.outbox.remove(batch.map((each) => each.id));
    this.told.received(receipt, batch);
  }

  // A new session of the same annotator brings a new form token.
  async #learn() {
    try {
      await this.calls.state();
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
    }
  }

  #wait(seconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, 1000 * seconds);
      this.wakers.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #stand(trouble, words = "") {
    this.trouble = trouble;
    this.words = trouble === REFUSED ? words : "";
    this.told.changed();
  }

  get isSignedOut() {
    return this.trouble === SIGNED_OUT;
  }
}
