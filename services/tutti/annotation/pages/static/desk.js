// The desk of an annotator: pairs of answers are shown and judged by keyboard, and every judgement is stored in this
// browser before the next pair is shown; the outbox is sent behind it. Nothing here knows who wrote an answer.

import { CallFailed, Calls, OFFLINE, SIGNED_OUT } from "./calls.js";
import { ask, askFile, askReason, askWords, show } from "./dialogs.js";
import { Drafts } from "./drafts.js";
import { Keymap, keysTable, listenToKeys } from "./keys.js";
import { element } from "./markdown.js";
import { Outbox, newId } from "./outbox.js";
import { changedGuideline, conversation, explanation, guidelineText, introduction, ownData, waiting } from "./panels.js";
import { DIGITS, SCORES, Scores } from "./scores.js";
import { markMore, scrollTogether } from "./scrolling.js";
import { Sender } from "./sender.js";
import { Shelf, keepPage } from "./shelf.js";
import { showDifferences, showPrompt, showText } from "./textview.js";
import { BadFile, deliver, read, report, save } from "./transfer.js";
import { BREAK_MINUTES, Watch } from "./watch.js";
import { LANGUAGES, STACKED, chosenLanguage, direction, say, speak } from "./words.js";

const AHEAD = 8;
const FEW = 5;
const UNDONE = 10;
const LONGEST_ANSWER = 8000;
const LONGEST_MESSAGE = 2000;
const SEEN = "tutti/annotation/answers"; // in localStorage: how many answers of the owner were looked at
const SETTLED = "tutti/annotation/moved"; // in localStorage: the former addresses that need not be named any more
const MESSAGE = "message"; // the draft that belongs to no pair
const LOOK_MILLISECONDS = 30_000;
const WAITING = ["no_pairs", "paused"]; // states that end without the annotator
const SKIPS = ["unclear", "expertise", "language", "content", "broken", "other"];
const FLAGS = ["harmful", "personal", "broken", "other"];
const $ = (id) => document.getElementById(id);

const answers = (standing) => (standing?.messages ?? []).filter(({ answer }) => answer).length;

class Desk {
  constructor() {
    const { campaign, annotator, user, formToken, platform, former } = $("desk").dataset;
    this.owner = { campaign, annotator, user };
    this.former = former;
    this.calls = new Calls(campaign, annotator, formToken, platform);
    this.outbox = new Outbox(campaign, annotator);
    this.drafts = new Drafts(campaign, annotator);
    this.sender = new Sender(this.calls, this.outbox, { received: (...all) => this.received(...all), changed: () => this.changed() });
    this.shelf = new Shelf(campaign, annotator);
    this.watch = new Watch(`${campaign}/${annotator}`);
    this.keymap = new Keymap();
    this.scores = new Scores($("axes"), $("rule"), () => this.note({ scores: this.scores.selected }));
    this.standing = null;
    this.queue = []; // pairs that come next, each with the id of the judgement that a new one supersedes
    this.judged = new Set();
    this.past = []; // pairs that can be judged again, with the id of their judgement
    this.pair = null;
    this.compares = false;
    this.waitsFor = null; // the qualifying pair whose right answer is shown next
    this.isLeasing = false;
    this.isAnswered = false; // whether an answer of the owner was announced and not looked at
    this.seen = 0; // answers of the owner that were looked at
    this.message = null; // a message to the owner that was not acknowledged
    this.looks = 0; // how often the server was asked how the annotator stands: of answers that cross, the newest counts
    this.hasBegun = false; // whether the server has been asked while it gave out pairs: the guideline comes before the first
  }

  async start() {
    this.language(chosenLanguage());
    await Promise.all([this.outbox.refresh(), this.drafts.open()]);
    this.judged = new Set(this.outbox.all().map((each) => each.pair));
    this.queue = this.undone;
    $("moved").hidden = !this.former || localStorage.getItem(SETTLED) === this.former;
    this.listen();
    this.line();
    if (this.outbox.foreign) this.notice(say("foreign", { count: this.outbox.foreign }));
    this.sender.wake();
    await this.look();
    keepPage();
  }

  listen() {
    listenToKeys((key) => this.key(key));
    $("scores").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    for (const button of document.querySelectorAll("[data-does]")) {
      button.addEventListener("click", () => this.does(button.dataset.does));
    }
    for (const [code, { name }] of Object.entries(LANGUAGES)) {
      $("language").append(element("option", { value: code, lang: code }, name));
    }
    $("language").value = chosenLanguage();
    $("language").addEventListener("change", () => this.language($("language").value));
    STACKED.addEventListener("change", () => this.language(chosenLanguage()));
    scrollTogether($("left"), $("right"));
    for (const each of ["prompt", "left", "right"]) markMore($(each), $(`${each}-more`));
    this.outbox.listen((judgement) => this.judgedElsewhere(judgement), () => this.line());
    document.addEventListener("visibilitychange", () => document.hidden || this.confirm());
    addEventListener("focus", () => this.confirm());
    setInterval(() => this.line(), 10_000);
  }

  language(code) {
    speak(code);
    $("desk").lang = code;
    $("desk").dir = direction();
    for (const each of document.querySelectorAll("[data-word]")) each.textContent = say(each.dataset.word);
    for (const each of document.querySelectorAll("[data-label]")) each.setAttribute("aria-label", say(each.dataset.label));
    $("moved-words").textContent = say("moved", { addresses: this.former });
    if (this.standing) this.scores.show(this.standing.axes);
    if (this.pair) this.showPair();
    this.showKeys();
    this.line();
  }

  // ---- what the server says

  // Asks how the annotator stands; then shows the next pair, or why there is none. `empty`: no pair was given just now.
  async look({ empty = false } = {}) {
    clearTimeout(this.timer);
    const turn = ++this.looks;
    const before = this.standing;
    try {
      const standing = await this.calls.state();
      if (turn !== this.looks) return;
      this.standing = standing;
      if (!before || JSON.stringify(before.axes) !== JSON.stringify(this.standing.axes)) this.scores.show(this.standing.axes);
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      if (turn !== this.looks) return;
      if (failure.kind === OFFLINE && !this.standing) await this.unshelve();
      if (this.calls.isReplaced) this.putAside();
      if (!this.pair) this.panelOf(failure);
      this.timer = setTimeout(() => this.look(), this.standing ? LOOK_MILLISECONDS : 2000);
      return;
    }
    if (before && before.retracted !== this.standing.retracted) this.judged = new Set(this.outbox.all().map((each) => each.pair));
    this.line();
    this.shelve();
    this.tellAnswer();
    this.tellWeight(before);
    const { state, done, qualification } = this.standing;
    if (state === "guideline_changed") {
      this.queue = this.undone; // no pair is judged before what is new was read
      this.pair = null;
    }
    const isNew = state === "qualifying" ? !qualification?.answered : !done;
    const begins = !this.hasBegun && ["qualifying", "active"].includes(state);
    this.hasBegun ||= begins;
    if (begins && isNew && !this.pair) this.introduce();
    else if (empty && !this.queue.length) await this.wait();
    else await this.next();
  }

  // The annotator comes back to this page: a pause may be over, or another one have signed in.
  async confirm() {
    if (!this.standing) return undefined;
    if (!this.pair && WAITING.includes(this.standing.state)) return this.look();
    const before = this.calls.isReplaced;
    await this.calls.state().catch(() => {});
    return before === this.calls.isReplaced ? undefined : this.look();
  }

  changed() {
    this.line();
    if (this.calls.isReplaced && this.pair) this.look();
  }

  // Hides the pair; it is shown again when its annotator is back.
  putAside() {
    if (this.pair) this.queue.unshift({ pair: this.pair, supersedes: this.supersedes });
    this.pair = null;
    if ($("dialog").open) $("dialog").close();
  }

  // Pairs of this browser that are judged again.
  get undone() {
    return this.drafts.undone.filter(({ supersedes }) => !this.outbox.all().some((each) => each.supersedes === supersedes));
  }

  // Keeps in this browser what is needed to go on without the server.
  shelve() {
    const pairs = this.pair ? [{ pair: this.pair, supersedes: this.supersedes }, ...this.queue] : this.queue;
    this.shelf.keep({ standing: this.standing, pairs: pairs.filter((each) => !each.supersedes) });
  }

  // Goes on with what was kept, while the server cannot be reached.
  async unshelve() {
    const kept = await this.shelf.kept();
    if (this.standing || kept?.standing?.state !== "active") return;
    this.standing = kept.standing;
    this.scores.show(this.standing.axes);
    this.queue = [...this.undone, ...kept.pairs.filter((each) => !this.judged.has(each.pair.id))];
    if (this.queue.length) this.showNext();
    else this.line();
  }

  async lease() {
    if (this.isLeasing) return;
    this.isLeasing = true;
    let isEmpty = false;
    try {
      const { pairs, state } = await this.calls.post("leases", { count: AHEAD });
      const known = new Set([this.pair?.id, ...this.queue.map((each) => each.pair.id)]);
      const fresh = pairs.filter((each) => !known.has(each.id) && !this.judged.has(each.id));
      this.queue.push(...fresh.map((pair) => ({ pair, supersedes: "" })));
      this.shelve();
      if (this.standing) this.standing.state = state;
      if (!this.pair && this.queue.length && !this.asksToRead) this.showNext();
      else isEmpty = !this.pair && !this.queue.length && !this.asksToRead;
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      if (!this.pair) this.panelOf(failure);
      this.retry = setTimeout(() => this.lease(), failure.kind === OFFLINE ? 1000 * (failure.seconds || 2) : 5000);
    } finally {
      this.isLeasing = false;
    }
    if (isEmpty) await this.look({ empty: true });
  }

  received(receipt, batch) {
    const isSuperseding = new Set(batch.filter((each) => each.supersedes).map((each) => each.id));
    for (const { id, reason, words } of receipt.refused) {
      const judgement = batch.find((each) => each.id === id);
      this.past = this.past.filter((each) => each.id !== id);
      this.forgetUndone(id);
      if (reason === "OLD_GUIDELINE" && judgement) this.judged.delete(judgement.pair);
      if (reason === "ALREADY_JUDGED" && !isSuperseding.has(id)) continue; // another tab was faster
      this.notice(say("notTaken", { words }));
    }
    if (this.standing) this.standing.done = receipt.done;
    if (this.standing && !this.standing.code && receipt.done >= this.standing.target) this.showCode();
    if ((receipt.answered ?? 0) > Math.max(this.answersSeen, answers(this.standing))) this.lookForAnswers();
    const reasons = new Set(receipt.refused.map((each) => each.reason));
    const explained = (receipt.explained ?? []).find((each) => each.pair === this.waitsFor?.id);
    if (explained) this.explain(explained);
    else if (["OLD_GUIDELINE", "CLOSED", "SUSPENDED", "RETRACTED"].some((each) => reasons.has(each))) this.again({ keepsPanel: this.asksToRead });
    else if (this.waitsFor && batch.some((each) => each.pair === this.waitsFor.id)) this.again();
    else if (!this.pair && !this.queue.length && !this.outbox.size && !this.asksToRead) this.look();
    this.line();
  }

  // The judgement with this id was not taken, so nothing supersedes it: its pair is judged anew.
  forgetUndone(id) {
    for (const { pair, supersedes } of this.drafts.undone) if (supersedes === id) this.drafts.change(pair.id, { undone: null });
    for (const each of this.queue) if (each.supersedes === id) each.supersedes = "";
    if (this.supersedes === id) this.supersedes = "";
  }

  // Shows the completion code of an annotator who has judged the expected number of pairs.
  async showCode() {
    const { code, target } = await this.calls.state().catch(() => ({})); // a later judgement asks again
    if (!code) return;
    this.standing.code = code;
    if (this.pair) this.notice(`${say("reached", { done: target })} ${say("code", { code })}`);
  }

  // Forgets the pairs that were fetched ahead and looks anew. `keepsPanel`: what the annotator reads can still be confirmed.
  again({ keepsPanel = false } = {}) {
    if (!keepsPanel) $("panel-go").hidden = true;
    this.queue = this.undone;
    this.pair = null;
    this.waitsFor = null;
    this.look();
  }

  judgedElsewhere({ pair, supersedes = "" }) {
    const isOther = (each) => each.pair.id !== pair || each.supersedes !== supersedes;
    this.judged.add(pair);
    this.queue = this.queue.filter(isOther);
    this.line();
    if (this.pair && !isOther({ pair: this.pair, supersedes: this.supersedes })) {
      this.pair = null;
      this.next();
    }
  }

  // ---- what is shown

  async next() {
    if (this.pair) return;
    if (!["qualifying", "active"].includes(this.standing?.state)) await this.wait();
    else if (this.queue.length) this.showNext();
    else {
      if (!this.asksToRead) this.panel("", say("loading"));
      await this.lease();
    }
  }

  showNext() {
    ({ pair: this.pair, supersedes: this.supersedes } = this.queue.shift());
    this.showPair();
    const { typed } = this.draft;
    const action = Object.keys(typed)[0];
    if (action) this.notice(say("unfinished", { key: this.keymap.keyOf(action) }));
    if (this.queue.length < FEW && this.standing.state !== "qualifying") this.lease();
  }

  showPair() {
    $("panel").hidden = true;
    $("pair").hidden = false;
    this.compare(false);
    showPrompt($("prompt"), this.pair.prompt);
    for (const [place, each] of ["left", "right"].entries()) {
      $(each).scrollTop = 0;
      $(`${each}-cut`).hidden = !this.pair.cut?.[place];
    }
    this.scores.select(this.draft.scores);
    this.line();
    $("pair-title").textContent = `${say("title")}: ${$("progress").textContent}`;
    if (!$("dialog").open) $("pair").focus({ preventScroll: true });
    scrollTo(0, 0);
    this.watch.begin();
  }

  compare(on) {
    this.compares = on;
    document.querySelector('[data-does="differences"]').setAttribute("aria-pressed", `${on}`);
    if (on) {
      showDifferences($("left"), $("right"), this.pair.answers);
    } else {
      showText($("left"), this.pair.answers[0]);
      showText($("right"), this.pair.answers[1]);
    }
  }

  // Shows a text in place of a pair; with `go`, a button with this word that calls `then`.
  panel(title, body, go = "", then = null) {
    this.watch.stop();
    delete $("panel").dataset.own;
    $("pair").hidden = true;
    $("panel").hidden = false;
    $("panel-title").textContent = title;
    $("panel-title").hidden = !title;
    $("panel-body").replaceChildren(typeof body === "string" ? element("p", { dir: "auto" }, body) : body);
    $("panel-go").hidden = !go;
    $("panel-go").textContent = go;
    $("panel-go").onclick = then;
    if (!$("dialog").open) (go ? $("panel-go") : $("panel")).focus({ preventScroll: true });
    scrollTo(0, 0); // the button is below the text: focus alone would show the end of it
  }

  // Whether there is something that the annotator has to read first.
  get asksToRead() {
    return !$("panel").hidden && !$("panel-go").hidden;
  }

  panelOf(failure) {
    if (this.pair) return;
    const count = this.outbox.size;
    if (failure.kind === SIGNED_OUT) this.panel(say("signedOutTitle"), say("signedOut", { count }));
    else if (failure.kind === OFFLINE) this.panel(say("offlineTitle"), say("offlineWords"));
    else this.panel("", say("refused", { words: failure.message }));
  }

  introduce() {
    const body = introduction(this.standing, () => this.withdraw());
    this.panel(say("beginTitle"), body, say("begin"), () => this.goOn());
  }

  explain({ right, better, words }) {
    const body = explanation(better, words, this.waitsFor);
    this.waitsFor = null;
    this.queue = [];
    this.pair = null;
    this.panel(say(right ? "rightAnswer" : "wrongAnswer"), body, say("goOn"), async () => {
      $("panel-go").hidden = true;
      await this.look();
      if (this.standing.state === "active") this.notice(say("qualified"));
    });
  }

  goOn() {
    $("panel-go").hidden = true;
    this.next();
  }

  // Shows why there is no pair, and looks again where there may be one later.
  async wait() {
    const { state, guideline, code } = this.standing;
    if (state === "guideline_changed") {
      if (!guideline.before) return this.look();
      return this.panel(say("guidelineChanged"), changedGuideline(guideline), say("read"), () => this.accept(guideline.version));
    }
    const titles = { no_pairs: code ? "finished" : "noPairs", paused: "paused", closed: "closed", suspended: "suspended" };
    if (state in titles) {
      this.panel(say(titles[state]), waiting(this.standing, this.past.length ? () => this.undo() : null, () => this.askOwner()));
      if (!this.isAnswered) this.notice("");
    } else {
      this.panel("", say("loading"));
    }
    clearTimeout(this.timer);
    if ([...WAITING, "active", "qualifying"].includes(state)) {
      this.timer = setTimeout(() => this.look(), state in titles ? LOOK_MILLISECONDS : 1000);
    }
    return undefined;
  }

  async accept(version) {
    try {
      await this.calls.post("guideline", { version });
      this.again();
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      this.notice(failure.message || say("offlineTitle"));
    }
  }

  notice(words) {
    $("notice").textContent = words;
    $("notice").hidden = !words;
  }

  line() {
    const { state, done = 0, target = 0, qualification } = this.standing ?? {};
    const waiting = this.outbox.all();
    const fresh = waiting.filter((each) => !each.supersedes).length;
    const qualifies = state === "qualifying" && qualification;
    $("progress").textContent = !this.standing
      ? say("loading")
      : qualifies
        ? say("qualifyingProgress", { answered: Math.min(qualification.answered + fresh, qualification.of), of: qualification.of })
        : say("progress", { done: done + fresh, target: Math.max(target, done + fresh) });
    $("minutes").textContent = say("minutes", { minutes: this.watch.minutes });
    const count = waiting.length;
    const { trouble, words } = this.sender;
    const texts = { [OFFLINE]: say("offline", { count }), [SIGNED_OUT]: say("signedOut", { count }) };
    const none = this.outbox.isRead ? say("saved") : "";
    const saved = count ? (texts[trouble] ?? (trouble ? say("refused", { words }) : say("saving", { count }))) : none;
    if ($("saved").textContent !== saved) $("saved").textContent = saved;
    $("saved").dataset.waiting = `${count}`;
    $("save").hidden = !count || !trouble || this.calls.isReplaced;
  }

  // ---- what the annotator does

  key(key) {
    const does = this.keymap.actionOf(key);
    if (["guideline", "keys", "ask", "own", "undo"].includes(does)) return this.does(does);
    if (key === "Enter") {
      if (!this.asksToRead) return false;
      $("panel-go").click();
      return true;
    }
    if (does === "pause" && $("panel").dataset.own) return this.does("pause");
    if (!this.pair || $("pair").hidden) return false;
    if (DIGITS.includes(key)) {
      if (this.scores.answer(SCORES[DIGITS.indexOf(key)])) this.submit();
      return true;
    }
    return does ? this.does(does) : false;
  }

  // Whether there is such an action now.
  does(what) {
    if (what === "guideline") show(say("guideline"), guidelineText(this.standing));
    else if (what === "keys") show(say("keysTitle"), keysTable(this.keymap, SCORES, () => this.showKeys()));
    else if (what === "ask") this.askOwner();
    else if (what === "own") this.own();
    else if (what === "undo") this.undo();
    else if (what === "pause") this.pause();
    else if (what === "save") this.save();
    else if (what === "take") this.take();
    else if (what === "settled") this.settle();
    else if (!this.pair) return false;
    else if (what === "differences") this.compare(!this.compares);
    else if (what === "comment") this.askComment();
    else if (what === "write") this.askAnswer();
    else this.pass(what);
    return true;
  }

  async submit() {
    const answers = this.pair && !$("pair").hidden ? this.scores.answers() : null;
    if (answers && (await this.finishesTexts())) this.judge({ kind: "judged", answers });
  }

  // Shows a text again that was begun and neither confirmed nor cancelled; whether the pair can be judged.
  async finishesTexts() {
    const { pair } = this;
    const { typed } = this.draft;
    if (typed.comment?.trim()) await this.askComment();
    if (this.pair === pair && typed.write?.trim()) await this.askAnswer();
    return this.pair === pair && !Object.values(this.draft.typed).some((each) => each.trim());
  }

  // What was selected and written for the pair that is shown, and is not submitted.
  get draft() {
    return this.drafts.of(this.pair.id);
  }

  note(changes, pair = this.pair) {
    if (pair) this.drafts.change(pair.id, changes);
  }

  async askComment() {
    await this.askText("comment", { title: say("commentTitle"), about: say("commentWords") });
  }

  async askAnswer() {
    const starts = ["startLeft", "startRight"].map((each, at) => [say(each), this.pair.answers[at]]);
    const options = { about: say("writeWords"), longest: LONGEST_ANSWER, starts };
    const written = await this.askText("write", { title: say("writeTitle"), ...options });
    if (written) this.notice(this.draft.write ? say("written") : "");
  }

  // Asks for words that are sent with the judgement; whether they were given. Escape keeps what was typed, Cancel does not.
  async askText(what, { title, about, ...options }) {
    const { pair, draft } = this;
    const typed = (words) => this.note({ typed: { [what]: words } }, pair);
    const words = await askWords(title, about, draft.typed[what] ?? draft[what], { ...options, typed });
    if (this.pair !== pair) return false;
    this.notice("");
    if (words === undefined) {
      if (this.draft.typed[what]?.trim()) this.notice(say("unfinished", { key: this.keymap.keyOf(what) }));
      return false;
    }
    this.note({ typed: {}, ...(words === null ? {} : { [what]: words.trim() }) });
    return words !== null;
  }

  // Asks for a message to the owner, and sends it. Escape keeps what was typed, and so does a server that is away.
  async askOwner() {
    if (!this.standing || $("dialog").open) return;
    this.isAnswered = false;
    this.answersSeen = answers(this.standing);
    this.notice("");
    const typed = (words) => this.drafts.change(MESSAGE, { typed: { ask: words } });
    const kept = this.drafts.of(MESSAGE).typed.ask ?? "";
    const options = { longest: LONGEST_MESSAGE, typed, confirm: say("send") };
    const words = await askWords(say("ask"), conversation(this.standing.messages), kept, options);
    const key = this.keymap.keyOf("ask");
    if (words === undefined) {
      if (this.drafts.of(MESSAGE).typed.ask?.trim()) this.notice(say("unasked", { key }));
      return;
    }
    if (words === null || !words.trim()) {
      typed("");
      return;
    }
    if (this.message?.words !== words) this.message = { id: newId(), words }; // one that is sent again has the same id
    try {
      this.standing.messages = (await this.calls.post("messages", this.message)).messages;
      this.message = null;
      typed("");
      this.notice(say("asked", { key }));
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      this.notice(`${failure.message || say("offlineTitle")} ${say("unasked", { key })}`);
    }
  }

  // Says so while there is an answer of the owner that was not looked at in this browser.
  tellAnswer() {
    this.isAnswered = answers(this.standing) > this.answersSeen;
    if (this.isAnswered) this.notice(say("answered", { key: this.keymap.keyOf("ask") }));
  }

  // Says so when the page opens and when the owner changes it, if the judgements do not count fully.
  tellWeight(before) {
    const { weight } = this.standing;
    if (!weight || (before?.weight?.weight === weight.weight && before.weight.why === weight.why)) return;
    this.notice(`${say("weighed", weight)} ${say("weighedAsk", { key: this.keymap.keyOf("ask") })}`);
  }

  get answersSeen() {
    return Math.max(this.seen, Number(localStorage.getItem(`${SEEN}/${this.calls.campaign}/${this.calls.annotator}`)) || 0);
  }

  set answersSeen(count) {
    this.seen = count;
    try {
      localStorage.setItem(`${SEEN}/${this.calls.campaign}/${this.calls.annotator}`, `${count}`);
    } catch {
      return; // it is known as long as the page
    }
  }

  // Asks for the messages alone, while pairs are judged.
  async lookForAnswers() {
    const found = await this.calls.state().catch(() => null); // a later judgement asks again
    if (!found || !this.standing) return;
    this.standing.messages = found.messages;
    this.tellAnswer();
  }

  async pass(what) {
    const { pair } = this;
    if (!(await this.finishesTexts())) return;
    const isSkip = what === "skip";
    const found = await askReason(say(isSkip ? "skipTitle" : "flagTitle"), isSkip ? SKIPS : FLAGS);
    if (!found || this.pair !== pair) return;
    if (found.comment) this.note({ comment: found.comment });
    this.judge({ kind: isSkip ? "skipped" : "flagged", reason: found.reason });
  }

  // Stores the judgement, sends it, and shows the next pair.
  async judge(what) {
    const { pair, supersedes } = this;
    const { comment, write } = this.draft;
    const judgement = { id: newId(), pair: pair.id, guideline: this.standing.guideline.version, ...what, shown_ms: this.watch.end() };
    if (comment) judgement.comment = comment;
    if (write) judgement.demonstration = write;
    if (supersedes) judgement.supersedes = supersedes;
    this.pair = null;
    this.judged.add(pair.id);
    this.drafts.judged(pair.id);
    const isStored = await this.outbox.add(judgement);
    this.notice(isStored ? "" : say("unstored"));
    if (this.standing.state === "qualifying") {
      this.waitsFor = pair;
      this.panel("", say("loading"));
    } else {
      this.past.push({ pair, id: judgement.id, write });
      if (this.past.length > UNDONE) this.past.shift();
      const { done, target } = this.standing;
      if (isStored && !supersedes && done + this.outbox.size === target) this.notice(say("reached", { done: target }));
      else if (isStored && this.watch.isBreakDue()) this.notice(say("breakDue", { minutes: BREAK_MINUTES, key: this.keymap.keyOf("pause") }));
      this.next();
      this.shelve();
    }
    this.line();
    this.sender.wake();
  }

  undo() {
    if (["closed", "guideline_changed"].includes(this.standing?.state)) {
      this.notice(say(this.standing.state === "closed" ? "tooLate" : "guidelineChangedWords"));
      return;
    }
    const last = this.past.pop();
    if (!last) {
      this.notice(say("nothingToUndo"));
      return;
    }
    this.putAside();
    const undone = { pair: last.pair, supersedes: last.id };
    this.note({ write: last.write, undone }, last.pair);
    this.queue.unshift(undone);
    this.showNext();
    this.notice(say("undone"));
  }

  pause() {
    if ($("panel").dataset.own) {
      delete $("panel").dataset.own;
      if (this.pair) this.showPair();
      else this.next();
      return;
    }
    if (!this.pair) return;
    this.watch.rest();
    this.notice("");
    this.panel(say("ownPause"), say("ownPauseWords"), say("goOn"), () => this.pause());
    $("panel").dataset.own = "1";
  }

  showKeys() {
    for (const button of document.querySelectorAll("[data-does][data-key]")) {
      button.dataset.key = this.keymap.keyOf(button.dataset.does);
    }
  }

  // What is stored of the annotator, and the way out.
  async own() {
    let next = null;
    const close = (then) => () => {
      next = then;
      $("dialog-form").requestSubmit();
    };
    const then = [close(() => this.take()), close(() => this.withdraw())];
    await show(say("own"), ownData(this.calls.campaign, this.standing ?? {}, ...then));
    await next?.();
  }

  // Saves the unsent judgements to a file; they stay in the outbox.
  save() {
    save(this.owner, this.outbox.all());
    this.notice(say("fileSaved", { count: this.outbox.size, key: this.keymap.keyOf("own") }));
  }

  // Delivers the judgements of a file that this page saved at another address, and shows what became of each.
  async take() {
    if ($("dialog").open) return;
    const file = await askFile(say("take"), say("takeWords"), say("take"));
    if (!file) return;
    let body;
    try {
      const judgements = await read(file, this.owner);
      body = report(await deliver(this.calls, judgements, (...all) => this.taken(...all)));
    } catch (failure) {
      if (!(failure instanceof BadFile)) throw failure;
      body = element("p", { dir: "auto", "data-reason": failure.reason }, say(failure.reason));
    }
    await show(say("take"), body);
  }

  // The server has these judgements, which no tab of this browser sent.
  taken(judgements, receipt) {
    for (const each of judgements) {
      this.outbox.announce(each);
      this.judgedElsewhere(each);
    }
    if (this.standing) this.standing.done = receipt.done;
    this.line();
    if (!judgements.length || this.asksToRead) return;
    if (this.standing?.state === "qualifying") this.again();
    else this.look();
  }

  // Names the former addresses no more in this browser.
  settle() {
    $("moved").hidden = true;
    try {
      localStorage.setItem(SETTLED, this.former);
    } catch {
      return; // it is hidden as long as the page
    }
  }

  async withdraw() {
    if (!(await ask(say("withdraw"), element("p", { dir: "auto" }, say("withdrawWords")), say("withdraw")))) return;
    try {
      await this.calls.post("withdraw", {});
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      this.notice(failure.message || say("offlineWords"));
      return;
    }
    this.outbox.remove(this.outbox.all().map((each) => each.id));
    await Promise.all([this.shelf.forget(), this.drafts.forget()]);
    this.past = [];
    this.again();
  }
}

new Desk().start();
