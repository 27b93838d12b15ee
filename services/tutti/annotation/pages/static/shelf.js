// What a desk needs to go on while the server cannot be reached: how the annotator stands and the pairs that were
// fetched ahead, kept in this browser for one annotator of one campaign. The worker keeps the page and its files.

import { DESKS, read, write } from "./storage.js";

const WORKER = "/annotation/worker.js";
const SCOPE = "/annotation/";

export class Shelf {
  constructor(campaign, annotator) {
    this.key = `${campaign}/${annotator}`;
    this.writing = Promise.resolve();
  }

  // Keeps `desk` in place of what was kept before; a browser that refuses keeps nothing.
  keep(desk) {
    this.writing = this.writing.then(() => write([DESKS], (store) => store(DESKS).put(desk, this.key))).catch(() => {});
    return this.writing;
  }

  // What was kept last; null for nothing.
  async kept() {
    try {
      return (await read(DESKS, (store) => store(DESKS).get(this.key))) ?? null;
    } catch {
      return null;
    }
  }

  async forget() {
    await this.writing;
    await write([DESKS], (store) => store(DESKS).delete(this.key)).catch(() => {});
  }
}

// Lets the worker keep this page. Browsers have workers where the page is served over TLS or loopback.
export async function keepPage() {
  if (!navigator.serviceWorker) return;
  const policy = globalThis.trustedTypes?.createPolicy("tutti-worker", { createScriptURL: () => WORKER });
  try {
    await navigator.serviceWorker.register(policy ? policy.createScriptURL(WORKER) : WORKER, { scope: SCOPE });
    const { active } = await navigator.serviceWorker.ready;
    const files = performance.getEntriesByType("resource").map((each) => new URL(each.name));
    const ours = files.filter((each) => each.origin === location.origin && each.pathname.startsWith("/static/"));
    active.postMessage({ keep: [location.pathname, ...ours.map((each) => each.pathname)] });
  } catch {
    // Without a worker the page works as long as it is open.
  }
}
