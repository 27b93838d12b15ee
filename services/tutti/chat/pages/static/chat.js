// The chat page: conversations, the messages of one, and what a person does with them.
//
// The server alone writes history: a turn names the revision of the conversation that this page shows, and is refused if
// another tab was first. An answer is read by number of its pieces, so a page that is loaded again goes on with it.

import { CallFailed, Calls } from "./calls.js";
import { ask, askWord } from "./dialogs.js";
import { Drafts } from "./drafts.js";
import { told } from "./endings.js";
import { go } from "./entries.js";
import { Explaining, WHY } from "./explaining.js";
import { save } from "./exporting.js";
import { said, sentence } from "./failures.js";
import { Following } from "./following.js";
import { closeHelp, listen, toggle } from "./keyboard.js";
import { element, plain } from "./markdown.js";
import { Models } from "./models.js";
import { Past } from "./past.js";
import { reportRefusal } from "./reporting.js";
import { Room } from "./room.js";
import { areEqual, differences, reset, setInputs, settings, temperature } from "./settings.js";
import { Shelf, SHELF } from "./shelf.js";
import { leadingTo, path } from "./tree.js";
import { focusIn, heldFocus, turns } from "./turnsview.js";

const $ = (id) => document.getElementById(id);
const MODELS_MILLISECONDS = 3000;
const NEAR_PIXELS = 100; // from the end, where the page follows an answer
const COPIED_MILLISECONDS = 2000;
const ALL = { unsent: 0, answer: 0 };
const { conversation: first, formToken, platform, owner } = $("chat").dataset;
const calls = new Calls(formToken, platform);
const drafts = new Drafts(`${platform}/${owner}`);
const explaining = new Explaining(calls, $("turns"), branch);
const following = new Following(calls, {
  article: () => $("turns").querySelector(`[data-message="${running()?.id}"]`),
  latest,
  grow: atEnd,
  begun: () => ($("status").textContent = "The model answers."),
  ended(conversation, answer) {
    $("status").textContent = told(conversation.messages.find((each) => each.answer === answer));
    take(conversation);
    room.count();
  },
  loggedOut: () => notice("You are logged out: open a link of `tutti open --chat`."),
});
const room = new Room(calls, $("room"), () => model() && body(typed()), (found) => {
  const { unsent, answer } = found.unsent ? found : ALL;
  if (unsent === fits.unsent && answer === fits.answer) return;
  fits = { unsent, answer };
  if (!running()) render();
});
const about = { subjects: $("empty-subjects"), words: $("empty-past"), trainings: $("empty-trainings"), prompts: $("prompts") };
const models = new Models(calls, new Past(calls, about, (prompt) => tried(() => say({ parent: "", text: prompt }))));
const shelf = new Shelf(calls, () => now.id, (id) => open(id));
let now = fresh(); // the conversation that is shown; at revision 0 the server does not know it
let chosen = new Map(); // of each parent, the message behind it that is shown
let editing = null; // the message that the composer edits
let sending = false;
const reported = new Map(); // of messages whose refusal was reported, the words that say so
let fits = ALL; // the messages that do not fit, and the room for the answer
let unsure = ""; // the text of a turn that was sent without an answer of the server

function fresh() {
  return { id: crypto.randomUUID(), title: "New conversation", revision: 0, settings: {}, messages: [] };
}

const shown = () => path(now.messages, chosen);
const running = () => now.messages.find((each) => each.state === "running");
const model = () => models.chosen;
const inputs = () => settings(model()?.system);
const body = (turn) => ({ conversation: now.id, revision: now.revision, ...turn, settings: inputs() });

// Runs what changes the height of the page, and follows its end if that is in sight.
function atEnd(work) {
  const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - NEAR_PIXELS;
  work();
  if (isAtEnd) scrollTo(0, document.documentElement.scrollHeight);
}

// Everything but the text that grows.
function render() {
  document.title = `${now.title} · Tutti`;
  $("title").replaceChildren(plain(document.createDocumentFragment(), now.title));
  $("title").title = $("title").textContent;
  if (now.messages.length) atEnd(renderTurns);
  else renderTurns();
  if (running()) following.follow(running());
}

function renderTurns() {
  $("acts").hidden = now.revision === 0;
  const acts = { copy, again, why, edit, choose, report, reported };
  const focus = heldFocus($("turns"));
  $("turns").replaceChildren(...turns(now, shown(), fits, acts));
  focus();
  $("empty").hidden = $("prompts").hidden = now.messages.length > 0;
  $("editing").hidden = !editing;
  if (!shown().some((each) => each.id === explaining.message?.id)) explaining.close();
  explaining.mark();
  const busy = running();
  const hadFocus = [$("send"), $("stop")].includes(document.activeElement);
  $("stop").hidden = !busy;
  $("send").hidden = Boolean(busy);
  $("send").disabled = Boolean(busy) || !model();
  if (hadFocus) (busy ? $("stop") : $("send")).focus();
}

function renderModel() {
  models.render();
  $("send").disabled = !model() || Boolean(running());
  renderSettings();
}

function renderSettings() {
  const found = models.areKnown ? differences(inputs()) : [];
  $("differing").hidden = !found.length;
  $("differences").replaceChildren(plain(document.createDocumentFragment(), found.join(", ")));
  room.count();
}

function take(conversation) {
  if (now.id !== conversation.id || now.revision <= conversation.revision) now = conversation;
  render();
}

function notice(...words) {
  $("notice").hidden = !words.length;
  $("notice").replaceChildren(...words);
}

// Runs what a person asked for, and says why it failed. `missing` is called if what it needs does not exist.
async function tried(work, missing = null) {
  try {
    notice();
    return await work();
  } catch (failure) {
    if (!(failure instanceof CallFailed)) throw failure;
    if (failure.status === 404 && missing) await missing();
    else notice(sentence(failure, model()?.length));
    return null;
  }
}

// The conversation was deleted, or is another person's: the page shows a new one, which gets what was typed.
function gone(conversation = now) {
  const text = conversation === now ? $("text").value : "";
  if (conversation === now) history.replaceState(null, "", "/chat");
  drafts.forget(conversation);
  turnTo(fresh());
  $("text").value = [drafts.of(now), text].filter(Boolean).join("\n");
  keepDraft();
  const link = element("a", { href: "/chat" }, "Begin a new one");
  link.onclick = (event) => {
    event.preventDefault();
    tried(begin);
  };
  notice("This conversation is not here: it was deleted, or it is somebody else's. ", link, ", or choose another one in the list.");
  shelf.list().catch(() => {});
}

function keepDraft() {
  if (!drafts.keep(now, editing?.id, $("text").value)) notKept();
}

// A conversation that begins has the defaults without being told.
function keepSettings() {
  const isDefault = now.revision === 0 && !differences(inputs()).length;
  if (!drafts.keepSettings(now, isDefault ? null : inputs())) notKept();
}

function notKept() {
  $("status").textContent = "This browser does not keep what you typed.";
}

// Shows the message that is edited, or what was typed for the conversation.
function showDraft() {
  $("text").value = drafts.of(now, editing?.id) || (editing?.text ?? "");
}

async function load(id) {
  return calls.get(`conversations/${encodeURIComponent(id)}`);
}

// The conversation that is shown as the server has it; null if it cannot be read now, or was deleted.
async function latest() {
  const { id } = now;
  try {
    return await load(id);
  } catch (failure) {
    if (!(failure instanceof CallFailed)) throw failure;
    if (failure.status === 404 && id === now.id) gone();
    return null;
  }
}

// Opens a conversation, or says that there is none.
async function open(id, { push = true } = {}) {
  const address = async () => push && go(`/chat/${id}`, SHELF);
  const shows = async () => {
    const found = await load(id);
    await address();
    setInputs(drafts.settingsOf(found) ?? found.settings);
    const isChosen = shelf.hasFocus;
    turnTo(found);
    await shelf.list();
    if (isChosen) shelf.focusChosen();
  };
  await tried(shows, async () => {
    await address();
    gone({ id, revision: 1 });
  });
}

function turnTo(conversation) {
  following.stop();
  chosen = leadingTo(conversation.messages, drafts.shownOf(conversation));
  editing = null;
  fits = ALL;
  $("status").textContent = "";
  closeHelp();
  shelf.close();
  explaining.close();
  now = conversation;
  showDraft();
  render();
  renderModel();
  scrollTo(0, now.messages.length ? document.documentElement.scrollHeight : 0);
}

// Shows what the entry of the browser's history names: a conversation, and what covered it.
async function arrive() {
  const id = location.pathname.split("/")[2] ?? "";
  shelf.arrive();
  if (id !== (now.revision ? now.id : "")) await (id ? open(id, { push: false }) : begin({ push: false }));
  const answer = shown().find((each) => each.id === history.state?.[WHY]);
  if (answer) await why(answer);
  else explaining.close({ back: true });
}

async function begin({ push = true } = {}) {
  if (push) await go("/chat", SHELF);
  const next = fresh();
  const kept = drafts.settingsOf(next);
  if (kept) setInputs(kept);
  turnTo(next);
  $("text").focus({ preventScroll: true });
  await shelf.list();
}

// Sends a turn; what is typed stays where it was not stored. Returns true if it was stored.
async function say(turn) {
  if (sending) return false;
  const [before, edited] = [now, editing];
  sending = true;
  try {
    const sent = body(turn);
    const conversation = await calls.post("say", sent);
    if (turn.text !== undefined) drafts.keep(before, edited?.id, "");
    drafts.keepSettings(before);
    if (now.id !== before.id) return false; // another one was opened meanwhile
    if (now.revision === 0) history.pushState(null, "", `/chat/${conversation.id}`);
    unsure = "";
    chosen.delete(turn.parent);
    const rest = $("text").value === turn.text ? "" : $("text").value; // what was typed meanwhile
    take(conversation);
    if (JSON.stringify(inputs()) !== JSON.stringify(sent.settings)) keepSettings(); // what was changed meanwhile
    if (edited && turn.text !== undefined) unedit();
    else $("text").value = rest;
    keepDraft();
    scrollTo(0, document.documentElement.scrollHeight);
    room.count();
    await shelf.list();
    return true;
  } catch (failure) {
    if (failure.status === 0) unsure = turn.text ?? "";
    if (failure.status === 409) await changed(turn, failure);
    else throw failure;
    return false;
  } finally {
    sending = false;
    render();
  }
}

// Another tab was first, or a turn had arrived whose answer did not: show what the server has.
async function changed(turn, failure) {
  const before = now;
  const conversation = await load(before.id);
  const known = new Set(before.messages.map((each) => each.id));
  now = conversation;
  if (before.revision === 0) history.pushState(null, "", `/chat/${now.id}`);
  const mine = conversation.messages.find((each) => !known.has(each.id) && each.role === "user" && each.text === unsure);
  if (unsure && mine) {
    unsure = "";
    drafts.keep(before, editing?.id, "");
    drafts.keepSettings(before);
    unedit();
    return;
  }
  chosen = new Map();
  const lost = turn.text === undefined ? "It was not answered again" : "Your message was not sent";
  const kept = turn.text === undefined ? "The" : "It is still in the field, and the";
  notice(`${lost}: ${said(failure)}. ${kept} newest messages are shown.`);
}

async function refresh() {
  const conversation = now.revision ? await latest() : null;
  if (conversation?.id === now.id && conversation.revision > now.revision) take(conversation);
  await shelf.list().catch(() => {});
}

// What a person types, as a turn.
function typed() {
  return { parent: editing ? editing.parent : (shown().at(-1)?.id ?? ""), text: $("text").value };
}

async function copy(message, button) {
  await navigator.clipboard.writeText(message.text);
  $("status").textContent = "It was copied.";
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), COPIED_MILLISECONDS);
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

// With `sure`, also where the answer will be the same.
async function again(message, { sure = false } = {}) {
  const isSame = temperature() === 0 && message.state === "whole" && !message.given && areEqual(inputs(), now.settings);
  if (isSame && !sure) {
    const button = element("button", { type: "button" }, "Ask all the same");
    button.onclick = () => again(message, { sure: true });
    return notice("At temperature 0, the same message has the same answer: raise the temperature in Settings for another one. ", button);
  }
  if (!(await tried(() => say({ parent: message.parent }), gone))) return;
  focusIn($("turns"), now.messages.at(-1).id);
}

function edit(message) {
  editing = message;
  showDraft();
  render();
  $("text").focus({ preventScroll: true });
  room.count();
}

function unedit() {
  editing = null;
  showDraft();
  render();
  room.count();
}

function choose(message, label) {
  chosen.set(message.parent, message.id);
  drafts.keepShown(now, shown().at(-1));
  render();
  focusIn($("turns"), message.id, label);
  document.activeElement.scrollIntoView({ block: "nearest" });
  room.count();
}

function why(message) {
  return tried(() => explaining.show(message));
}

async function branch({ answer, parent }, at, token) {
  try {
    const conversation = await calls.post("branch", { conversation: now.id, revision: now.revision, answer, at, token });
    chosen.delete(parent);
    explaining.close();
    take(conversation);
    focusIn($("turns"), conversation.messages.at(-1).id);
    document.activeElement.scrollIntoView({ block: "nearest" });
    await shelf.list();
  } catch (failure) {
    if (failure.status === 409) take(await load(now.id)); // another tab was first
    throw failure;
  }
}

function submit() {
  const turn = typed();
  if (!turn.text.trim()) return;
  if (running()) notice("The model still answers: send it when the answer has ended, or stop the answer.");
  else if (!$("send").disabled) tried(() => say(turn), gone);
}

async function rename() {
  const title = await askWord("Title of the conversation", now.title, "Rename");
  if (title === null) return;
  await tried(async () => {
    now.title = (await calls.post("rename", { conversation: now.id, title })).title;
    render();
    await shelf.list();
  }, gone);
}

async function remove() {
  const words = "The conversation is deleted for good, with the texts of its answers. Only records without a text stay.";
  if (!(await ask("Delete the conversation?", words, "Delete"))) return;
  await tried(async () => {
    await calls.post("delete", { conversation: now.id });
    drafts.forget(now);
    history.replaceState(null, "", "/chat");
    await begin({ push: false });
  }, gone);
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
$("text").addEventListener("input", () => {
  keepDraft();
  room.count();
});
$("settings").addEventListener("input", () => {
  keepSettings();
  renderSettings();
});
$("reset").onclick = () => {
  reset();
  keepSettings();
  notice();
  renderModel();
  $("text").focus({ preventScroll: true });
};
$("settings-open").onclick = () => {
  toggle($("settings-open"), $("settings"), $("settings").hidden);
  $("settings").scrollIntoView({ block: "nearest" });
};
$("model").onchange = () => {
  keepSettings();
  renderModel();
};
$("new").onclick = () => tried(begin);
$("search").addEventListener("input", () => tried(() => shelf.list()));
$("rename").onclick = rename;
$("export").onclick = () => save(calls, now, shown());
$("delete").onclick = remove;
$("stop").onclick = halt;
$("why-close").onclick = () => explaining.close({ back: true });
$("unedit").onclick = () => {
  drafts.keep(now, editing.id, "");
  unedit();
  $("text").focus({ preventScroll: true });
};

function halt() {
  const busy = running();
  if (busy) tried(() => calls.post("stop", { answer: busy.answer }));
}

// The answer that keys act on: the one in focus, that of the drawer, or the last one.
function meant() {
  const answers = shown().filter((each) => each.role === "assistant" && each.state !== "running");
  const focused = $("turns").contains(document.activeElement) && document.activeElement.closest("[data-message]")?.dataset.message;
  return answers.find(({ id, parent }) => focused && [id, parent].includes(focused)) ?? explaining.message ?? answers.at(-1);
}

// Puts off one thing: what covers the page or explains it, else the answer that is made, else what is typed.
function escape({ target }) {
  if (explaining.message) explaining.close({ back: true });
  else if (shelf.isOpen) shelf.close({ back: true });
  else if (closeHelp()) return;
  else if (running()) halt();
  else if (editing && target === $("text")) unedit();
  else if (target.closest("input, textarea") && !(target.type === "search" && target.value)) {
    if (meant()) focusIn($("turns"), meant().id);
    else $("main").focus();
  }
}

function editLast() {
  const last = shown().findLast((each) => each.role === "user");
  if (!last || running()) return false;
  edit(last);
  return true;
}

async function explain({ tokens = false } = {}) {
  const view = meant() && (await why(meant()));
  if (tokens) view?.show();
}

listen({ submit, editLast, begin: () => tried(begin), why: () => explain(), tokens: () => explain({ tokens: true }), escape });
addEventListener("popstate", () => tried(arrive));
addEventListener("visibilitychange", () => document.hidden || refresh());

async function loadModels() {
  await models.load((drafts.settingsOf(now) ?? now.settings).model);
  renderModel();
}

// A deployment whose replicas are started again is no model meanwhile.
setInterval(() => model() || document.hidden || loadModels().catch(() => {}), MODELS_MILLISECONDS);

const areLoaded = await tried(async () => (await loadModels(), true));
showDraft();
setInputs(drafts.settingsOf(now) ?? {});
renderModel();
if (first) await open(first, { push: false });
else if (areLoaded) await tried(() => shelf.list());
render();
$("text").focus({ preventScroll: true });
if (history.state?.[WHY]) await arrive();
