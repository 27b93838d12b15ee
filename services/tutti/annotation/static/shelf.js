// What a desk needs to go on while the server cannot be reached: how the annotator stands and the pairs that were
// fetched ahead, kept in this browser for one annotator of one campaign. The worker keeps the page and its files.

const DATABASE = "tutti/annotation";
const STORE = "desks";
const WORKER = "/annotation/worker.js";
const SCOPE = "/annotation/";

export class Shelf {
  constructor(campaign, annotator) {
    this.key = `${campaign}/${annotator}`;
    this.writing = Promise.resolve();
  }

  // Keeps `desk` in place of what was kept before; a browser that refuses keeps nothing.
  keep(desk) {
    this.writing = this.writing.then(() => run("readwrite", (store) => store.put(desk, this.key))).catch(() => {});
    return this.writing;
  }

  // What was kept last; null for nothing.
  async kept() {
    try {
      return (await run("readonly", (store) => store.get(this.key))) ?? null;
    } catch {
      return null;
    }
  }

  async forget() {
    await this.writing;
    await run("readwrite", (store) => store.delete(this.key)).catch(() => {});
  }
}

async function run(mode, work) {
  const database = await opened();
  try {
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, mode, { durability: "strict" });
      const request = work(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

function opened() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = request.onblocked = () => reject(request.error ?? new Error("blocked"));
  });
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
