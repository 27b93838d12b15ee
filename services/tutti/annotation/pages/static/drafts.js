// Drafts of one annotator of one campaign, by pair: selected scores, comments and better answers that are not submitted
// yet. Each change is stored in this browser; tabs share drafts.

import { DRAFTS, beginningWith, read, write } from "./storage.js";

const KEPT_MILLISECONDS = 30 * 24 * 3_600_000; // of a pair that was given to somebody else meanwhile
const EMPTY = { scores: {}, comment: "", write: "", typed: {}, undone: null };

// `scores` by axis; `comment` and the better answer `write` are sent with the judgement; `typed` has the text of a dialog
// that was not confirmed, by its action; `undone` is { pair, supersedes } of a pair that is judged again.
export class Drafts {
  constructor(campaign, annotator) {
    this.owner = { campaign, annotator };
    this.drafts = new Map();
    this.channel = new BroadcastChannel(`tutti/annotation/drafts/${campaign}/${annotator}`);
    this.channel.onmessage = ({ data }) => this.#put(data.pair, data.draft);
  }

  async open() {
    const { campaign, annotator } = this.owner;
    const found = await read(DRAFTS, (store) => store(DRAFTS).getAll(beginningWith(campaign, annotator))).catch(() => []);
    for (const { pair, draft, at } of found) {
      if (Date.now() - at < KEPT_MILLISECONDS) this.drafts.set(pair, draft);
      else this.#store(pair, null);
    }
  }

  of(pair) {
    return this.drafts.get(pair) ?? EMPTY;
  }

  // Pairs that are judged again.
  get undone() {
    return [...this.drafts.values()].map((each) => each.undone).filter(Boolean);
  }

  change(pair, changes) {
    const draft = { ...this.of(pair), ...changes };
    this.#put(pair, draft);
    this.channel.postMessage({ pair, draft });
    return this.#store(pair, draft);
  }

  // The pair was judged; the outbox removes the draft from the database.
  judged(pair) {
    this.#put(pair, null);
    this.channel.postMessage({ pair, draft: null });
  }

  async forget() {
    const { campaign, annotator } = this.owner;
    this.drafts.clear();
    await write([DRAFTS], (store) => store(DRAFTS).delete(beginningWith(campaign, annotator))).catch(() => {});
  }

  #put(pair, draft) {
    if (draft) this.drafts.set(pair, draft);
    else this.drafts.delete(pair);
  }

  // A browser that refuses has the draft as long as the page.
  #store(pair, draft) {
    const { campaign, annotator } = this.owner;
    return write([DRAFTS], (store) =>
      draft ? store(DRAFTS).put({ ...this.owner, pair, draft, at: Date.now() }) : store(DRAFTS).delete([campaign, annotator, pair]),
    ).catch(() => {});
  }
}
