// Judgements that the server has not confirmed, stored in this browser for one annotator of one campaign. A judgement is
// stored before the next pair is shown. Tabs of the same annotator share the outbox; other annotators have their own.

import { DRAFTS, OUTBOX, beginningWith, read, write } from "./storage.js";

export class Outbox {
  constructor(campaign, annotator) {
    this.owner = { campaign, annotator };
    this.entries = new Map(); // by id
    this.storing = new Map(); // entries that are not in the database yet, or that it refused
    this.sent = new Set(); // ids that the server has answered
    this.isRead = false;
    this.foreign = 0; // judgements of other annotators of this campaign that were made in this browser
    this.channel = new BroadcastChannel(`tutti/annotation/outbox/${campaign}/${annotator}`);
  }

  // Judgements in the order in which they were made.
  all() {
    const sorted = [...this.entries.values()].sort((one, other) => one.number - other.number);
    return sorted.map((each) => each.judgement);
  }

  get size() {
    return this.entries.size;
  }

  // Reads what is stored, also by other tabs; a browser that refuses has what this page made.
  async refresh() {
    const { campaign, annotator } = this.owner;
    let found;
    try {
      found = await read(OUTBOX, (store) => store(OUTBOX).getAll(beginningWith(campaign)));
    } catch {
      return;
    } finally {
      this.isRead = true;
    }
    const own = found.filter((each) => each.annotator === annotator && !this.sent.has(each.id));
    this.foreign = found.filter((each) => each.annotator !== annotator).length;
    this.entries = new Map([...own.map((each) => [each.id, each]), ...this.storing]);
  }

  // Stores a judgement in place of the draft of its pair; false if the browser refuses, then it lasts as long as the page.
  async add(judgement) {
    const { campaign, annotator } = this.owner;
    const number = 1 + Math.max(0, ...[...this.entries.values()].map((each) => each.number));
    const entry = { ...this.owner, id: judgement.id, number, judgement };
    this.entries.set(entry.id, entry);
    this.storing.set(entry.id, entry);
    try {
      const work = (store) => {
        store(DRAFTS).delete([campaign, annotator, judgement.pair]);
        store(OUTBOX).put(entry);
      };
      await write([OUTBOX, DRAFTS], work, "strict");
    } catch {
      return false;
    }
    this.storing.delete(entry.id);
    this.announce(judgement);
    return true;
  }

  // Tells other tabs that there is a judgement of its pair.
  announce(judgement) {
    this.channel.postMessage({ judgement });
  }

  // Forgets judgements that the server has answered.
  remove(ids) {
    const { campaign, annotator } = this.owner;
    this.#forget(ids);
    this.channel.postMessage({ sent: ids });
    write([OUTBOX], (store) => {
      for (const id of ids) store(OUTBOX).delete([campaign, annotator, id]);
    }).catch(() => {}); // they are sent again after a reload, and change nothing
  }

  // Calls `judged` with each judgement that another tab adds, and `changed` when it has sent some.
  listen(judged, changed) {
    this.channel.onmessage = ({ data }) => {
      if (data.sent) {
        this.#forget(data.sent);
        changed();
      } else {
        this.refresh().then(changed);
        judged(data.judgement);
      }
    };
  }

  #forget(ids) {
    for (const id of ids) {
      this.sent.add(id);
      this.entries.delete(id);
      this.storing.delete(id);
    }
  }
}

// A UUID of version 4; crypto.randomUUID is missing where the page is not served over TLS or loopback.
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((each) => each.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
