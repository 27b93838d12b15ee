// The database of the annotators' pages in this browser: the outbox, drafts, and desks that open without the server.
// A write is requested and committed before the caller's event handler ends, so a reload directly after it loses nothing.

const DATABASE = "tutti/annotation";
const VERSION = 2;
const MILLISECONDS = 3000; // a database that does not answer is treated as one that refuses
export const DESKS = "desks";
export const DRAFTS = "drafts";
export const OUTBOX = "outbox";
const KEYS = { [DRAFTS]: ["campaign", "annotator", "pair"], [OUTBOX]: ["campaign", "annotator", "id"] };

let connection = null;

// Resolves with the result of the request that `work` returns, when it is stored; rejects if the browser refuses. A
// reload and a crash of the browser lose nothing; with `strict`, a crash of the machine neither.
export function write(stores, work, durability = "relaxed") {
  return within(attempt(stores, "readwrite", work, durability));
}

export function read(store, work) {
  return within(attempt([store], "readonly", work));
}

// All records whose keys begin with these parts.
export function beginningWith(...parts) {
  return IDBKeyRange.bound(parts, [...parts, []]);
}

async function attempt(stores, mode, work, durability = "default") {
  const database = connection ?? (await opened());
  let transaction;
  try {
    transaction = database.transaction(stores, mode, { durability });
  } catch (error) {
    if (error.name !== "InvalidStateError") throw error;
    connection = null; // the browser closed it, for example because its files were removed
    transaction = (await opened()).transaction(stores, mode, { durability });
  }
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(request?.result);
    transaction.onabort = () => reject(transaction.error ?? new Error("aborted"));
    const request = work((name) => transaction.objectStore(name));
    if (mode === "readwrite") transaction.commit?.();
  });
}

function opened() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, VERSION);
    request.onupgradeneeded = ({ oldVersion }) => {
      if (!oldVersion) request.result.createObjectStore(DESKS);
      for (const [name, keyPath] of Object.entries(KEYS)) request.result.createObjectStore(name, { keyPath });
    };
    request.onsuccess = () => {
      connection = request.result;
      connection.onclose = () => (connection = null);
      connection.onversionchange = () => {
        connection?.close(); // a tab with a newer page waits for it
        connection = null;
      };
      resolve(connection);
    };
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("another tab holds an older version"));
  });
}

function within(promise) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("the browser's database does not answer")), MILLISECONDS);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
