// Judgements that the server has not confirmed, kept in this browser for one annotator of one campaign.
// Each has an entry of its own in the local storage, which is written before the next pair is shown: what was judged
// survives a reload, and tabs do not overwrite each other. Other annotators of this browser have other entries.

const ROOT = "tutti/annotation/outbox/";

export class Outbox {
  constructor(campaign, annotator) {
    this.prefix = `${ROOT}${campaign}/${annotator}/`;
    this.unstored = new Map(); // where the browser refuses to store
  }

  // Judgements in the order in which they were made.
  all() {
    const found = [];
    for (let at = 0; at < localStorage.length; at += 1) {
      const key = localStorage.key(at);
      if (key.startsWith(this.prefix)) found.push(JSON.parse(localStorage.getItem(key)));
    }
    found.push(...this.unstored.values());
    return found.sort((one, other) => one.number - other.number).map((each) => each.judgement);
  }

  get size() {
    return this.all().length;
  }

  // Judgements of other annotators of this campaign that were made in this browser.
  get foreign() {
    const others = this.prefix.slice(0, this.prefix.lastIndexOf("/", this.prefix.length - 2) + 1);
    return Object.keys(localStorage).filter((key) => key.startsWith(others) && !key.startsWith(this.prefix)).length;
  }

  // Whether it is stored; if it is not, it lasts as long as the page.
  add(judgement) {
    const numbers = Object.keys(localStorage)
      .filter((key) => key.startsWith(this.prefix))
      .map((key) => JSON.parse(localStorage.getItem(key)).number);
    const number = 1 + Math.max(0, ...numbers, ...[...this.unstored.values()].map((each) => each.number));
    try {
      localStorage.setItem(this.prefix + judgement.id, JSON.stringify({ number, judgement }));
      return true;
    } catch {
      this.unstored.set(judgement.id, { number, judgement });
      return false;
    }
  }

  remove(id) {
    localStorage.removeItem(this.prefix + id);
    this.unstored.delete(id);
  }

  // Calls `told` with each judgement that another tab adds.
  listen(told) {
    addEventListener("storage", (event) => {
      if (event.key?.startsWith(this.prefix) && event.newValue) told(JSON.parse(event.newValue).judgement);
    });
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
