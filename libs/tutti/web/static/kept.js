// Drops the pages that a service worker keeps in this browser: they are those of the user who was logged in. Resolves
// after a second at the latest.

const MILLISECONDS = 1000;

export async function dropKeptPages() {
  const late = new Promise((resolve) => setTimeout(resolve, MILLISECONDS));
  await Promise.race([drop().catch(() => {}), late]);
}

async function drop() {
  for (const name of (await globalThis.caches?.keys()) ?? []) await caches.delete(name);
}
