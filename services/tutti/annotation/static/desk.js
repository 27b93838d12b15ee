// The desk of an annotator: pairs of answers are shown and judged by keyboard, and every judgement is stored in this
// browser before the next pair is shown; the outbox is sent behind it. Nothing here knows who wrote an answer.

import { CallFailed, Calls, OFFLINE, SIGNED_OUT } from "./calls.js";
import { ask, askReason, askWords, show } from "./dialogs.js";
import { Keymap, keysTable, listenToKeys } from "./keys.js";
import { element, markdown } from "./markdown.js";
import { Outbox, newId } from "./outbox.js";
import { DIGITS, SCORES, Scores } from "./scores.js";
import { Sender } from "./sender.js";
import { Shelf, keepPage } from "./shelf.js";
import { showChange, showDifferences, showPrompt, showText } from "./textview.js";
import { BREAK_MINUTES, Watch } from "./watch.js";
import { LANGUAGES, chosenLanguage, direction, say, speak } from "./words.js";

const AHEAD = 8;
const FEW = 5;
const UNDONE = 10;
const LONGEST_ANSWER = 8000;
const LOOK_MILLISECONDS = 30_000;
const SKIPS = ["unclear", "expertise", "language", "content", "broken", "other"];
const FLAGS = ["harmful", "personal", "broken", "other"];
const $ = (id) => document.getElementById(id);

class Desk {
  constructor() {
    const { campaign, annotator, formToken } = $("desk").dataset;
    this.calls = new Calls(campaign, annotator, formToken);
    this.outbox = new Outbox(campaign, annotator);
    this.sender = new Sender(this.calls, this.outbox, { received: (...all) => this.received(...all), changed: () => this.line() });
    this.shelf = new Shelf(campaign, annotator);
    this.watch = new Watch(`${campaign}/${annotator}`);
    this.keymap = new Keymap();
    this.scores = new Scores($("axes"), $("rule"));
    this.standing = null;
    this.queue = []; // pairs that come next, each with the id of the judgement that a new one supersedes
    this.judged = new Set(this.outbox.all().map((each) => each.pair));
    this.past = []; // pairs that can be judged again, with the id of their judgement
    this.pair = null;
    this.comment = "";
    this.demonstration = ""; // a better answer that was written to the prompt of the pair
    this.compares = false;
    this.waitsFor = ""; // the qualifying pair whose right answer is shown next
    this.isLeasing = false;
    this.moved = new Map(); // where an answer was scrolled to together with the other one
  }

  async start() {
    this.language(chosenLanguage());
    this.listen();
    this.line();
    if (this.outbox.foreign) this.notice(say("foreign", { count: this.outbox.foreign }));
    this.sender.wake();
    await this.look({ first: true });
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
    for (const [one, other] of [["left", "right"], ["right", "left"]]) this.scrollTogether($(one), $(other));
    this.outbox.listen((judgement) => this.judgedElsewhere(judgement));
    setInterval(() => this.line(), 10_000);
  }

  // Moves the other answer to the same share of its height; the event that this makes is not answered.
  scrollTogether(one, other) {
    one.addEventListener("scroll", () => {
      const isOurs = Math.abs(one.scrollTop - (this.moved.get(one) ?? -9)) <= 1;
      this.moved.delete(one);
      if (isOurs) return;
      const room = other.scrollHeight - other.clientHeight;
      const own = one.scrollHeight - one.clientHeight;
      if (room <= 0 || own <= 0) return;
      const wanted = Math.round((one.scrollTop / own) * room);
      if (Math.abs(other.scrollTop - wanted) < 1) return;
      this.moved.set(other, wanted);
      other.scrollTop = wanted;
    });
  }

  language(code) {
    speak(code);
    $("desk").lang = code;
    $("desk").dir = direction();
    for (const each of document.querySelectorAll("[data-word]")) each.textContent = say(each.dataset.word);
    for (const each of document.querySelectorAll("[data-label]")) each.setAttribute("aria-label", say(each.dataset.label));
    if (this.standing) this.scores.show(this.standing.axes);
    if (this.pair) this.showPair();
    this.showKeys();
    this.line();
  }

  // ---- what the server says

  // Asks how the annotator stands; then shows the next pair, or why there is none.
  async look({ first = false } = {}) {
    clearTimeout(this.timer);
    try {
      const before = this.standing;
      this.standing = await this.calls.state();
      if (!before || JSON.stringify(before.axes) !== JSON.stringify(this.standing.axes)) this.scores.show(this.standing.axes);
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      if (failure.kind === OFFLINE && !this.standing) await this.unshelve();
      if (!this.pair) this.panelOf(failure);
      this.timer = setTimeout(() => this.look({ first }), this.standing ? LOOK_MILLISECONDS : 2000);
      return;
    }
    this.line();
    this.shelve();
    const { state, done, qualification } = this.standing;
    const isNew = state === "qualifying" ? !qualification?.answered : !done;
    if (first && isNew && !this.pair && ["qualifying", "active"].includes(state)) this.introduce();
    else await this.next();
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
    this.queue = kept.pairs.filter((each) => !this.judged.has(each.pair.id));
    if (this.queue.length) this.showNext();
    else this.line();
  }

  async lease() {
    if (this.isLeasing) return;
    this.isLeasing = true;
    try {
      const { pairs, state } = await this.calls.post("leases", { count: AHEAD });
      const known = new Set([this.pair?.id, ...this.queue.map((each) => each.pair.id)]);
      const fresh = pairs.filter((each) => !known.has(each.id) && !this.judged.has(each.id));
      this.queue.push(...fresh.map((pair) => ({ pair, supersedes: "" })));
      this.shelve();
      if (this.standing) this.standing.state = state;
      if (!this.pair && this.queue.length && !this.asksToRead) this.showNext();
      else if (!this.pair && !this.queue.length && !this.asksToRead) await this.wait();
    } catch (failure) {
      if (!(failure instanceof CallFailed)) throw failure;
      if (!this.pair) this.panelOf(failure);
      this.retry = setTimeout(() => this.lease(), failure.kind === OFFLINE ? 1000 * (failure.seconds || 2) : 5000);
    } finally {
      this.isLeasing = false;
    }
  }

  received(receipt, batch) {
    const isSuperseding = new Set(batch.filter((each) => each.supersedes).map((each) => each.id));
    for (const { id, reason, words } of receipt.refused) {
      const judgement = batch.find((each) => each.id === id);
      this.past = this.past.filter((each) => each.id !== id);
      if (reason === "OLD_GUIDELINE" && judgement) this.judged.delete(judgement.pair);
      if (reason === "ALREADY_JUDGED" && !isSuperseding.has(id)) continue; // another tab was faster
      this.notice(say("notTaken", { words }));
    }
    if (this.standing) this.standing.done = receipt.done;
    const reasons = new Set(receipt.refused.map((each) => each.reason));
    const explained = (receipt.explained ?? []).find((each) => each.pair === this.waitsFor);
    if (explained) this.explain(explained);
    else if (["OLD_GUIDELINE", "CLOSED", "SUSPENDED", "RETRACTED"].some((each) => reasons.has(each))) this.again();
    else if (this.waitsFor && batch.some((each) => each.pair === this.waitsFor)) this.again();
    this.line();
  }

  // Forgets the pairs that were fetched ahead and looks anew.
  again() {
    $("panel-go").hidden = true;
    this.queue = [];
    this.pair = null;
    this.waitsFor = "";
    this.look();
  }

  judgedElsewhere(judgement) {
    if (judgement.supersedes) return;
    this.judged.add(judgement.pair);
    this.queue = this.queue.filter((each) => each.pair.id !== judgement.pair);
    this.line();
    if (this.pair?.id === judgement.pair) {
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
    ({ pair: this.pair, supersedes: this.supersedes, demonstration: this.demonstration = "" } = this.queue.shift());
    this.comment = "";
    this.showPair();
    if (this.queue.length < FEW && this.standing.state !== "qualifying") this.lease();
  }

  showPair() {
    $("panel").hidden = true;
    $("pair").hidden = false;
    this.compare(false);
    showPrompt($("prompt"), this.pair.prompt);
    for (const each of ["left", "right"]) $(each).scrollTop = 0;
    this.scores.clear();
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
    if (!$("dialog").open) (go ? $("panel-go") : $("panel")).focus();
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
    const isQualifying = this.standing.state === "qualifying";
    const body = element("div", {}, element("p", { dir: "auto" }, say(isQualifying ? "beginWords" : "beginPlain")));
    const { warning } = this.standing;
    if (warning) {
      const leave = element("button", { type: "button" }, say("leave"));
      leave.addEventListener("click", () => this.withdraw());
      const told = element("p", { dir: "auto" }, element("strong", {}, say("warning")), ` ${warning}`);
      body.append(element("div", { class: "warning" }, told, element("p", { dir: "auto" }, say("leaveWords")), leave));
    }
    body.append(this.guidelineText());
    this.panel(say("beginTitle"), body, say("begin"), () => this.goOn());
  }

  explain({ right, words }) {
    this.waitsFor = "";
    this.queue = [];
    this.pair = null;
    const body = element("p", { dir: "auto" }, words);
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

  // Why there is no pair, and when there may be one.
  async wait() {
    const { state, reason, done, guideline } = this.standing;
    if (state === "guideline_changed") {
      if (!guideline.before) return this.look();
      const text = element("div");
      showChange(text, guideline.before.text, guideline.text);
      const body = element("div", {}, element("p", { dir: "auto" }, say("guidelineChangedWords")), text);
      return this.panel(say("guidelineChanged"), body, say("read"), () => this.accept(guideline.version));
    }
    const body = element("div");
    const add = (text) => text && body.append(element("p", { dir: "auto" }, text));
    add(reason);
    if (state === "closed") add(say("closedWords", { done }));
    if (state === "no_pairs") add(say("noPairsWhen"));
    if (state === "paused") add(say("pausedWhen"));
    if (this.standing.agreement) add(say("agreement", this.standing.agreement));
    if (this.standing.code) add(say("code", this.standing));
    const titles = { no_pairs: "noPairs", paused: "paused", closed: "closed", suspended: "suspended" };
    this.panel(say(titles[state] ?? state), body);
    clearTimeout(this.timer);
    if (["no_pairs", "paused", "active", "qualifying"].includes(state)) {
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

  guidelineText() {
    const text = element("div", { dir: "auto" });
    text.append(markdown(this.standing?.guideline.text ?? ""));
    return text;
  }

  notice(words) {
    $("notice").textContent = words;
    $("notice").hidden = !words;
  }

  line() {
    const { state, done = 0, target = 0, qualification } = this.standing ?? {};
    const waiting = this.outbox.all();
    const fresh = waiting.filter((each) => !each.supersedes).length;
    $("progress").textContent =
      state === "qualifying" && qualification
        ? say("qualifyingProgress", { answered: Math.min(qualification.answered + fresh, qualification.of), of: qualification.of })
        : say("progress", { done: done + fresh, target });
    $("minutes").textContent = say("minutes", { minutes: this.watch.minutes });
    const count = waiting.length;
    const { trouble, words } = this.sender;
    const texts = { [OFFLINE]: say("offline", { count }), [SIGNED_OUT]: say("signedOut", { count }) };
    const saved = count ? (texts[trouble] ?? (trouble ? say("refused", { words }) : say("saving", { count }))) : say("saved");
    if ($("saved").textContent !== saved) $("saved").textContent = saved;
    $("saved").dataset.waiting = `${count}`;
  }

  // ---- what the annotator does

  key(key) {
    const does = this.keymap.actionOf(key);
    if (["guideline", "keys", "own", "undo"].includes(does)) return this.does(does);
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
    if (what === "guideline") show(say("guideline"), this.guidelineText());
    else if (what === "keys") show(say("keysTitle"), keysTable(this.keymap, SCORES, () => this.showKeys()));
    else if (what === "own") this.own();
    else if (what === "undo") this.undo();
    else if (what === "pause") this.pause();
    else if (!this.pair) return false;
    else if (what === "differences") this.compare(!this.compares);
    else if (what === "comment") this.askComment();
    else if (what === "write") this.askAnswer();
    else this.pass(what);
    return true;
  }

  submit() {
    const answers = this.pair && !$("pair").hidden ? this.scores.answers() : null;
    if (answers) this.judge({ kind: "judged", answers });
  }

  async askComment() {
    const { pair } = this;
    const words = await askWords(say("commentTitle"), say("commentWords"), this.comment);
    if (words !== null && this.pair === pair) this.comment = words;
  }

  async askAnswer() {
    const { pair } = this;
    const words = await askWords(say("writeTitle"), say("writeWords"), this.demonstration, LONGEST_ANSWER);
    if (words === null || this.pair !== pair) return;
    this.demonstration = words.trim();
    this.notice(this.demonstration ? say("written") : "");
  }

  async pass(what) {
    const { pair } = this;
    const isSkip = what === "skip";
    const found = await askReason(say(isSkip ? "skipTitle" : "flagTitle"), isSkip ? SKIPS : FLAGS);
    if (!found || this.pair !== pair) return;
    if (found.comment) this.comment = found.comment;
    this.judge({ kind: isSkip ? "skipped" : "flagged", reason: found.reason });
  }

  // Stores the judgement, sends it, and shows the next pair.
  judge(what) {
    const { pair } = this;
    const judgement = { id: newId(), pair: pair.id, guideline: this.standing.guideline.version, ...what, shown_ms: this.watch.end() };
    if (this.comment) judgement.comment = this.comment;
    if (this.demonstration) judgement.demonstration = this.demonstration;
    if (this.supersedes) judgement.supersedes = this.supersedes;
    if (!this.outbox.add(judgement)) this.notice(say("unstored"));
    else this.notice("");
    this.judged.add(pair.id);
    this.pair = null;
    if (this.standing.state === "qualifying") {
      this.waitsFor = pair.id;
      this.panel("", say("loading"));
    } else {
      this.past.push({ pair, id: judgement.id, demonstration: this.demonstration });
      if (this.past.length > UNDONE) this.past.shift();
      const { done, target } = this.standing;
      if (!judgement.supersedes && done + this.outbox.size === target) this.notice(say("reached", { done: target }));
      else if (this.watch.isBreakDue()) this.notice(say("breakDue", { minutes: BREAK_MINUTES, key: this.keymap.keyOf("pause") }));
      this.next();
      this.shelve();
    }
    this.line();
    this.sender.wake();
  }

  undo() {
    const last = this.past.pop();
    if (!last) {
      this.notice(say("nothingToUndo"));
      return;
    }
    if (this.pair) this.queue.unshift({ pair: this.pair, supersedes: this.supersedes, demonstration: this.demonstration });
    this.pair = last.pair;
    this.supersedes = last.id;
    this.demonstration = last.demonstration;
    this.comment = "";
    this.showPair();
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
    const { code } = this.standing ?? {};
    const data = element("a", { href: `/annotation/${encodeURIComponent(this.calls.campaign)}/own.json`, download: "own.json" }, say("ownData"));
    const body = element("div", {}, element("p", { dir: "auto" }, say("ownWords")), element("p", {}, data));
    if (code) body.append(element("p", { dir: "auto" }, say("code", { code })));
    let leaves = false;
    const withdraw = element("button", { type: "button" }, say("withdraw"));
    withdraw.addEventListener("click", () => {
      leaves = true;
      $("dialog-form").requestSubmit();
    });
    body.append(element("p", {}, withdraw));
    await show(say("own"), body);
    if (leaves) await this.withdraw();
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
    for (const { id } of this.outbox.all()) this.outbox.remove(id);
    await this.shelf.forget();
    this.past = [];
    this.again();
  }
}

new Desk().start();
