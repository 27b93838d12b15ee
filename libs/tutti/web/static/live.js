// Keeps a page up to date: when the server announces a new version, the page is loaded again and the elements of its
// main part that have changed are replaced. Focus, scroll position, open details and selected checkboxes stay.

const status = document.getElementById("live");
let shown = document.body.dataset.version;
let loading = false;

// XMLHttpRequest parses the answer into an inert document, which needs no Trusted Types policy.
function load() {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", location.href);
    request.responseType = "document";
    request.timeout = 15000;
    request.onload = () => (request.status === 200 && request.response ? resolve(request.response) : reject());
    request.onerror = request.ontimeout = reject;
    request.send();
  });
}

function update(before, after) {
  if (before.isEqualNode(after)) return;
  const parts = [...before.children];
  const others = [...after.children];
  const alike =
    before.tagName === after.tagName &&
    parts.length > 0 &&
    parts.length === others.length &&
    parts.every((part, at) => part.tagName === others[at].tagName) &&
    before.namespaceURI === "http://www.w3.org/1999/xhtml" &&
    [...before.childNodes].every((node) => node.nodeType !== Node.TEXT_NODE || !node.data.trim());
  if (alike) {
    for (const { name, value } of after.attributes) if (before.getAttribute(name) !== value) before.setAttribute(name, value);
    for (const { name } of [...before.attributes]) {
      if (!after.hasAttribute(name) && name !== "open") before.removeAttribute(name);
    }
    parts.forEach((part, at) => update(part, others[at]));
  } else if (before.contains(document.activeElement) && before !== document.activeElement.closest("main")) {
    const focused = document.activeElement.getAttribute("href");
    before.replaceWith(document.importNode(after, true));
    if (focused) document.querySelector(`main [href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  } else {
    before.replaceWith(document.importNode(after, true));
  }
}

// Checkboxes of the main part by name and value: an element may have another value after an update.
function boxes() {
  const found = [...document.querySelectorAll("main input[type=checkbox]")];
  return new Map(found.map((box) => [`${box.name}=${box.value}`, box]));
}

async function refresh() {
  if (loading) return;
  loading = true;
  try {
    const fresh = await load();
    shown = fresh.body.dataset.version;
    document.title = fresh.title;
    const changed = [...boxes()].filter(([, box]) => box.checked !== box.defaultChecked);
    const before = new Map(changed.map(([name, box]) => [name, box.checked]));
    update(document.querySelector("main"), fresh.querySelector("main"));
    for (const [name, box] of boxes()) box.checked = before.get(name) ?? box.defaultChecked;
  } catch {
    status.textContent = "· could not be updated";
  } finally {
    loading = false;
  }
}

const events = new EventSource(document.body.dataset.events);
let announced = shown;
events.addEventListener("version", async (event) => {
  announced = event.data;
  status.textContent = "· live";
  while (announced !== shown && !loading) {
    const wanted = announced;
    await refresh();
    if (wanted === announced) break; // a newer version is announced when there is one
  }
});
events.onerror = () => {
  status.textContent = events.readyState === EventSource.CLOSED ? "· you are logged out: load the page again" : "· not connected";
};
