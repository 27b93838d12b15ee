// The chat page: conversations, the messages of one, and what a person does with them.
//
// The server alone writes history: a turn names the revision of the conversation that this page shows, and is refused if
// another tab was first. An answer is read by number of its pieces, so a page that is loaded again goes on with it.

import { CallFailed, Calls } from "./calls.js";
import { ask, askWord } from "./dialogs.js";
import { element, plain } from "./markdown.js";
import { reportRefusal } from "./reporting.js";
import { path, written } from "./tree.js";
import { growing, turns } from "./turnsview.js";
import { Past } from "./past.js";
import { drawer, standing } from "./why.js";

const $ = (id) => document.getElementById(id);
const COUNT_MILLISECONDS = 200;
const MODELS_MILLISECONDS = 3000;
const NEAR_PIXELS = 100; // from the end, where the page follows an answer
const AGAIN_MILLISECONDS = 1000;
const SAVED_MILLISECONDS = 60_000; // the browser may read a file after the click
const { conversation: first, formToken, platform } = $("chat").dataset;
const calls = new Calls(formToken, platform);
const learnt = new Past(calls, { words: $("empty-past"), trainings: $("empty-trainings"), prompts: $("prompts") }, (prompt) => tried(() => say({ parent: "", text: prompt })));
let models = [];
let now = fresh(); // the conversation that is shown; at revision 0 the server does not know it
let chosen = new Map(); // of each parent, the message behind it that is shown
let editing = null; // the message that the composer edits
const reported = new Map(); // of messages whose refusal was reported, the words that say so
let unsent = 0;
let following = null; // { answer, controller, text, next, article, view } of the answer that is read
let unsure = ""; // the text of a turn that was sent without an answer of the server

function fresh() {
  return { id: crypto.randomUUID(), title: "New conversation", revision: 0, settings: {}, messages: [] };
}

const shown = () => path(now.messages, chosen);
const running = () => now.messages.find((each) => each.state === "running");
const model = () => models.find((each) => each.name === $("model").value);

function isAtEnd() {
  return innerHeight + scrollY >= document.documentElement.scrollHeight - NEAR_PIXELS;
}

// Everything but the text that grows.
function render() {
  document.title = `${now.title} · Tutti`;
  $("title").replaceChildren(plain(document.createDocumentFragment(), now.title));
  $("acts").hidden = now.revision === 0;
  const atEnd = isAtEnd();
  const acts = { copy, again, why, edit, choose, report, reported };
  $("turns").replaceChildren(...turns(now, shown(), unsent, acts));
  $("empty").hidden = now.messages.length > 0;
  $("editing").hidden = !editing;
  const busy = running();
  $("stop").hidden = !busy;
  $("send").disabled = Boolean(busy) || !model();
  if (atEnd) scrollTo(0, document.documentElement.scrollHeight);
  if (busy) follow(busy);
}

function renderModel() {
  const found = model();
  $("banner").hidden = Boolean(found?.release && found.release.standing === "active");
  let words = "No model serves: `tutti serve CHECKPOINT` lets one answer.";
  if (found) words = "This model is an experiment: it is not released.";
  if (found?.release?.missing) words = `Whether the release of this model is active is not known: ${found.release.missing}.`;
  else if (found?.release) words = `The release of this model is ${found.release.standing}.`;
  $("banner").textContent = words;
  $("empty-model").textContent = found?.name ?? "No model";
  $("empty-standing").replaceChildren(...(found ? standing(found.release).map((each) => element("span", {}, each.textContent, " ")) : []));
  $("empty-length").textContent = found ? `${found.length} tokens fit: those of a conversation and its answer together.` : "";
  learnt.show(found?.name);
  for (const key of ["temperature", "top_p"]) $(key).placeholder = found?.sampling[key] ?? 1;
  $("sampling").textContent = found ? drawnBy(found.sampling) : "";
  $("system").disabled = !found?.system;
  $("system-label").textContent = found && !found.system ? "System prompt (this model learnt none)" : "System prompt";
  $("send").disabled = !found || Boolean(running());
  count();
}

function drawnBy({ source, top_k }) {
  const among = top_k ? ` Tokens are drawn from the ${top_k} likeliest.` : "";
  if (source.startsWith("samples/")) return `Fields that are empty have the values with which the released answers were drawn (${source}).${among}`;
  return source ? `Fields that are empty have the values of the model's own ${source}.${among}` : "";
}

function settings() {
  const found = { model: $("model").value };
  if ($("system").value.trim() && model()?.system) found.system = $("system").value;
  for (const key of ["temperature", "top_p", "max_tokens"]) {
    if ($(key).value !== "") found[key] = Number($(key).value);
  }
  return found;
}

function take(conversation) {
  if (now.id !== conversation.id || now.revision <= conversation.revision) now = conversation;
  render();
}

function setInputs({ model: name, system = "", ...numbers }) {
  if (models.some((each) => each.name === name)) $("model").value = name;
  $("system").value = system;
  for (const key of ["temperature", "top_p", "max_tokens"]) $(key).value = numbers[key] ?? "";
}

function notice(words) {
  $("notice").hidden = !words;
  $("notice").textContent = words;
}

// Runs what a person asked for, and says why it failed.
async function tried(work) {
  try {
    notice("");
    return await work();
  } catch (failure) {
    if (!(failure instanceof CallFailed)) throw failure;
    notice(failure.message);
    return null;
  }
}

async function list() {
  const words = $("search").value.trim();
  const { conversations } = await calls.get(`conversations?search=${encodeURIComponent(words)}`);
  $("none").hidden = conversations.length > 0 || !words;
  $("conversations").replaceChildren(
    ...conversations.map(({ id, title }) => {
      const link = plain(element("a", { href: `/chat/${id}`, dir: "auto" }), title);
      if (id === now.id) link.setAttribute("aria-current", "page");
      link.onclick = (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        tried(() => open(id));
      };
      return element("li", {}, link);
    }),
  );
}

async function load(id) {
  return calls.get(`conversations/${encodeURIComponent(id)}`);
}

async function open(id, { push = true } = {}) {
  const found = await load(id);
  leave();
  now = found;
  if (push) history.pushState(null, "", `/chat/${id}`);
  setInputs(found.settings);
  renderModel();
  render();
  await list();
}

function leave() {
  following?.controller.abort();
  following = null;
  chosen = new Map();
  editing = null;
  unsent = 0;
  $("shelf").classList.remove("open");
  $("menu").setAttribute("aria-expanded", "false");
  $("why").hidden = true;
}

async function begin() {
  leave();
  now = fresh();
  history.pushState(null, "", "/chat");
  render();
  renderModel();
  $("text").focus();
  await list();
}

// Sends a turn; what is typed stays where it was not stored.
async function say(turn) {
  const sent = { conversation: now.id, revision: now.revision, ...turn, settings: settings() };
  $("send").disabled = true;
  try {
    const conversation = await calls.post("say", sent);
    if (now.revision === 0) history.pushState(null, "", `/chat/${conversation.id}`);
    editing = null;
    unsure = "";
    if (turn.text !== undefined) $("text").value = "";
    chosen.delete(turn.parent);
    take(conversation);
    scrollTo(0, document.documentElement.scrollHeight);
    count();
    await list();
  } catch (failure) {
    if (failure.status === 0) unsure = turn.text ?? "";
    if (failure.status === 409) await changed(turn, failure);
    else throw failure;
  } finally {
    render();
  }
}

// Another tab was first, or a turn had arrived whose answer did not: show what the server has.
async function changed(turn, failure) {
  const conversation = await load(now.id);
  const known = new Set(now.messages.map((each) => each.id));
  now = conversation;
  const mine = conversation.messages.find((each) => !known.has(each.id) && each.role === "user" && each.text === unsure);
  if (unsure && mine) {
    $("text").value = unsure = "";
    return;
  }
  chosen = new Map();
  editing = null;
  notice(`Your message was not sent: ${failure.message}. It is still in the field, and the newest messages are shown.`);
}

async function refresh() {
  const conversation = now.revision ? await load(now.id) : now;
  if (conversation.id === now.id && conversation.revision > now.revision) take(conversation);
  await list();
}

// Reads an answer until it has ended, over streams that break, and then its conversation.
async function follow(message) {
  if (following?.answer === message.answer) return show();
  following?.controller.abort();
  const mine = (following = { answer: message.answer, controller: new AbortController(), text: "", next: 0 });
  const { signal } = mine.controller;
  $("status").textContent = "The model answers.";
  let ended = false;
  const told = (event) => {
    if (event.text !== undefined) {
      mine.text += event.text;
      mine.next = event.next;
      show(event.text);
    }
    ended ||= Boolean(event.ended);
  };
  while (!ended && !signal.aborted) {
    try {
      await calls.follow(mine.answer, mine.next, told, signal);
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      if (failure.status === 401) return notice("You are logged out: open a link of `tutti open --chat`.");
    }
    if (!ended && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, AGAIN_MILLISECONDS));
  }
  while (!signal.aborted) {
    const conversation = await calls.get(`conversations/${encodeURIComponent(now.id)}`).catch(() => null);
    if (signal.aborted) return;
    if (conversation) {
      following = null;
      $("status").textContent = "The answer has ended.";
      take(conversation);
      count();
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MILLISECONDS));
  }
}

// Adds a text to the answer that grows; all of it, where its element is new.
function show(text = "") {
  const message = running();
  const article = message && $("turns").querySelector(`[data-message="${message.id}"]`);
  if (!article || !following) return;
  const atEnd = isAtEnd();
  const isNew = following.article !== article;
  if (isNew) Object.assign(following, { article, view: growing(article) });
  following.view.push(isNew ? following.text : text);
  if (atEnd) scrollTo(0, document.documentElement.scrollHeight);
}

let counting = 0;

function count() {
  clearTimeout(counting);
  counting = setTimeout(counted, COUNT_MILLISECONDS);
}

async function counted() {
  if (!model()) return;
  const parent = editing ? editing.parent : (shown().at(-1)?.id ?? "");
  const at = now.revision;
  try {
    const turn = { conversation: now.id, revision: at, parent, text: $("text").value, settings: settings() };
    const found = await calls.post("count", turn);
    if (at !== now.revision) return;
    $("room").classList.remove("full");
    const left = found.unsent ? `; the ${found.unsent} oldest messages are not sent` : "";
    $("room").textContent = `${found.tokens} of ${found.length} tokens${left}`;
    if (found.unsent !== unsent) {
      unsent = found.unsent;
      if (!running()) render();
    }
  } catch (failure) {
    if (!(failure instanceof CallFailed)) throw failure;
    $("room").classList.add("full");
    $("room").textContent = failure.message;
  }
}

async function copy(message) {
  await navigator.clipboard.writeText(message.text);
  $("status").textContent = "It was copied.";
}

function report(message) {
  tried(async () => {
    const words = await reportRefusal(message, (name, body) => calls.post(name, body));
    if (words === null) return;
    reported.set(message.id, words);
    $("status").textContent = words;
    render();
  });
}

function again(message) {
  tried(() => say({ parent: message.parent }));
}

function edit(message) {
  editing = message;
  $("text").value = message.text;
  render();
  $("text").focus();
  count();
}

function choose(message) {
  chosen.set(message.parent, message.id);
  render();
  count();
}

// Opens the drawer of an answer; its view of the tokens.
async function why(message) {
  const ident = encodeURIComponent(message.answer.replace("answers/", ""));
  const found = await tried(() => calls.get(`why/${ident}`));
  if (!found) return null;
  const { made, view } = drawer(found, message, {
    verify: () => calls.post("verify", { answer: message.answer }),
    overlap: () => calls.get(`overlap/${ident}`),
    tokens: () => calls.get(`tokens/${ident}`),
    place: (at) => calls.get(`tokens/${ident}/${at}`),
    branch: (at, token) => branch(message, at, token),
  });
  $("why-body").replaceChildren(made);
  $("why").hidden = false;
  $("why").focus();
  return view;
}

async function branch({ answer, parent }, at, token) {
  const body = { conversation: now.id, revision: now.revision, answer, at, token };
  try {
    const conversation = await calls.post("branch", body);
    chosen.delete(parent);
    closeWhy();
    take(conversation);
    await list();
  } catch (failure) {
    if (failure.status === 409) take(await load(now.id)); // another tab was first
    throw failure;
  }
}

function submit() {
  const text = $("text").value;
  if (!text.trim() || $("send").disabled) return;
  const parent = editing ? editing.parent : (shown().at(-1)?.id ?? "");
  tried(() => say({ parent, text }));
}

function toggle(button, part, isOpen) {
  button.setAttribute("aria-expanded", `${isOpen}`);
  if (part.id === "shelf") part.classList.toggle("open", isOpen);
  else part.hidden = !isOpen;
}

function save() {
  const text = written(now.title, shown());
  const url = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  element("a", { href: url, download: `conversation-${now.id.slice(0, 8)}.md` }).click();
  setTimeout(() => URL.revokeObjectURL(url), SAVED_MILLISECONDS);
}

async function rename() {
  const title = await askWord("Title of the conversation", now.title, "Rename");
  if (title === null) return;
  await tried(async () => {
    now.title = (await calls.post("rename", { conversation: now.id, title })).title;
    render();
    await list();
  });
}

async function remove() {
  const words = "The conversation is deleted for good, with all that was kept of its answers but their records.";
  if (!(await ask("Delete the conversation?", words, "Delete"))) return;
  await tried(async () => {
    await calls.post("delete", { conversation: now.id });
    await begin();
  });
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
$("text").addEventListener("input", count);
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit();
  } else if (event.key === "ArrowUp" && !event.target.value) {
    const last = shown().findLast((each) => each.role === "user");
    if (last && !running()) {
      event.preventDefault();
      edit(last);
    }
  }
});
$("settings").addEventListener("input", count);
$("settings-open").onclick = () => toggle($("settings-open"), $("settings"), $("settings").hidden);
$("menu").onclick = () => toggle($("menu"), $("shelf"), !$("shelf").classList.contains("open"));
$("model").onchange = renderModel;
$("new").onclick = () => tried(begin);
$("search").addEventListener("input", () => tried(list));
$("rename").onclick = rename;
$("export").onclick = save;
$("delete").onclick = remove;
$("stop").onclick = halt;
$("why-close").onclick = closeWhy;
$("unedit").onclick = () => {
  editing = null;
  $("text").value = "";
  render();
  count();
};

function halt() {
  const busy = running();
  if (busy) tried(() => calls.post("stop", { answer: busy.answer }));
}

function closeWhy() {
  $("why").hidden = true;
  $("text").focus();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || $("dialog").open) return;
  if (event.key === "Escape") return $("why").hidden ? halt() : closeWhy();
  if (event.target.closest("input, textarea, select")) return;
  const key = event.key.toLowerCase();
  if (key === "n") {
    event.preventDefault();
    tried(begin);
  } else if (key === "y" || key === "t") {
    const last = shown().findLast((each) => each.role === "assistant" && each.state !== "running");
    if (last) why(last).then((view) => key === "t" && view?.show());
  }
});
addEventListener("popstate", () => {
  const id = location.pathname.split("/")[2];
  tried(() => (id ? open(id, { push: false }) : begin()));
});
addEventListener("visibilitychange", () => document.hidden || refresh().catch(() => {}));

// The models that serve now; the chosen one stays chosen.
async function loadModels() {
  const before = $("model").value || now.settings.model;
  models = (await calls.get("models")).models;
  $("model").replaceChildren(
    ...models.map(({ name, release }) => element("option", { value: name }, release ? name : `${name} (experiment)`)),
  );
  if (models.some((each) => each.name === before)) $("model").value = before;
  renderModel();
}

// A deployment whose replicas are started again is no model meanwhile.
setInterval(() => model() || document.hidden || loadModels().catch(() => {}), MODELS_MILLISECONDS);

tried(async () => {
  await loadModels();
  if (first) await open(first, { push: false });
  else await list();
  render();
  $("text").focus();
});
