// Parts of the page that cover others while they are open: each has an entry of the browser's history, whose state names the
// part, so the Back button closes it.

const LEFT_MILLISECONDS = 1000;
let leaving = null; // a promise until the entry of a part that was closed has left the history

// Makes the newest entry that of a part, unless the part was closed meanwhile. The state of the entry is `{ [part]: value }`.
export async function enter(part, value, isOpen) {
  await leaving;
  if (!isOpen()) return;
  const { [part]: known } = history.state ?? {};
  if (known !== value) history[known ? "replaceState" : "pushState"]({ [part]: value }, "");
}

// Takes the entry of a part that was closed out of the history, if it is the newest one. No `popstate` tells of it.
export function leave(part, value) {
  if (leaving || history.state?.[part] !== value) return;
  if (history.length === 1) return history.replaceState(null, "");
  const heard = new AbortController();
  leaving = new Promise((resolve) => {
    const left = (event) => {
      event?.stopImmediatePropagation();
      heard.abort();
      leaving = null;
      resolve();
    };
    addEventListener("popstate", left, { capture: true, signal: heard.signal });
    setTimeout(() => heard.signal.aborted || left(), LEFT_MILLISECONDS); // a page that is opened meanwhile cancels it
  });
  history.back();
}

// Names an address in the history: in a new entry, or in that of a part which covers the page and closes now.
export async function go(path, part) {
  await leaving;
  history[history.state?.[part] ? "replaceState" : "pushState"](null, "", path);
}
