// Drops what was fetched for the user who was logged in and kept in this browser: pages of service workers, and records
// of databases except work that was not sent. Resolves after a second at the latest.

const MILLISECONDS = 1000;
const PREFIX = "tutti/";
const DRAFTS = "tutti/chat/drafts/"; // in localStorage: what a person typed for conversations and did not send, and which branches are shown
const KNOWN = [{ name: "tutti/annotation" }]; // for browsers that do not list their databases
const UNSENT = new Set(["drafts", "outbox"]); // stores of work that is nowhere else

export async function dropKeptPages() {
  const late = new Promise((resolve) => setTimeout(resolve, MILLISECONDS));
  await Promise.race([Promise.allSettled([dropPages(), dropRecords()]), late]);
}

// Drops unsent texts of conversations, which are private: the person who logs out of this browser may leave it to others.
export function dropDrafts() {
  for (const key of Object.keys(localStorage)) if (key.startsWith(DRAFTS)) localStorage.removeItem(key);
}

async function dropPages() {
  for (const name of (await globalThis.caches?.keys()) ?? []) await caches.delete(name);
}

async function dropRecords() {
  const databases = (await globalThis.indexedDB?.databases?.()) ?? KNOWN;
  await Promise.all(databases.filter(({ name }) => name.startsWith(PREFIX)).map(({ name }) => clear(name)));
}

function clear(name) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(name);
    opening.onupgradeneeded = () => opening.transaction.abort(); // there is none, and none is made
    opening.onerror = () => resolve();
    opening.onsuccess = () => {
      const database = opening.result;
      const stores = [...database.objectStoreNames].filter((each) => !UNSENT.has(each));
      if (!stores.length) return resolve(database.close());
      const transaction = database.transaction(stores, "readwrite");
      for (const each of stores) transaction.objectStore(each).clear();
      transaction.oncomplete = () => resolve(database.close());
      transaction.onabort = () => reject(transaction.error);
    };
  });
}
