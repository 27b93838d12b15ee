// The service worker of the annotators' pages: it keeps a desk and its files, so that the desk opens while the server
// cannot be reached. It keeps no call and no other page; judgements and pairs are kept by the desk itself.

const CACHE = "tutti/annotation";
const STATIC = "/static/";
const PLATFORM = "tutti-platform"; // the header with the id of the platform
const DESK = /^\/annotation\/[^/.]+$/;
const MILLISECONDS = 5000; // a server that hangs is one that cannot be reached

addEventListener("install", () => self.skipWaiting());
addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

// A desk names itself and the files that it was made of; files that no desk names any more are dropped.
addEventListener("message", (event) => {
  const { keep } = event.data ?? {};
  if (Array.isArray(keep)) event.waitUntil(kept(keep));
});

addEventListener("fetch", (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (request.method !== "GET" || origin !== location.origin) return;
  if (pathname.startsWith(STATIC)) event.respondWith(file(request, pathname));
  else if (request.mode === "navigate" && DESK.test(pathname)) event.respondWith(desk(request, pathname));
});

async function kept(paths) {
  const cache = await caches.open(CACHE);
  const wanted = new Set(paths);
  for (const each of await cache.keys()) {
    const { pathname } = new URL(each.url);
    if (pathname.startsWith(STATIC) && !wanted.has(pathname)) await cache.delete(each);
  }
  const missing = [];
  for (const path of wanted) if (!(await cache.match(path))) missing.push(path);
  await cache.addAll(missing);
}

// The digest in its path names the content of a file.
async function file(request, path) {
  return (await caches.match(path)) ?? fetch(request);
}

async function desk(request, path) {
  const cache = await caches.open(CACHE);
  let response;
  try {
    response = await Promise.race([fetch(request), late()]);
  } catch {
    response = null;
  }
  const kept = await cache.match(path);
  if (!response || response.status >= 500 || isForeign(response, kept)) return kept ?? response ?? Response.error();
  if (response.ok && !response.redirected) await cache.put(path, response.clone());
  else await cache.delete(path); // the session has ended, or nobody was invited
  return response;
}

// Whether another program answers at the address of the page that was kept.
function isForeign(response, kept) {
  const platform = kept?.headers.get(PLATFORM);
  return Boolean(platform) && response.headers.get(PLATFORM) !== platform;
}

function late() {
  return new Promise((_, reject) => setTimeout(() => reject(new Error("no answer in time")), MILLISECONDS));
}
