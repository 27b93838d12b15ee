// The drawer "Why this answer": which answer it is about, and where the focus goes when it closes.
//
// The Back button closes it too: its entry of the browser's history names its message.

import { enter, leave } from "./entries.js";
import { plain } from "./markdown.js";
import { focusIn } from "./turnsview.js";
import { drawer } from "./why.js";

const $ = (id) => document.getElementById(id);
export const WHY = "why"; // the part in the browser's history

export class Explaining {
  #open = null; // { message, view, opener }

  // `turns` is the element of the messages; `branch(message, at, token)` continues an answer with another token.
  constructor(calls, turns, branch) {
    this.calls = calls;
    this.turns = turns;
    this.branch = branch;
  }

  // The answer that the drawer is about, or null.
  get message() {
    return this.#open?.message ?? null;
  }

  // Opens the drawer; one that is open for the answer stays as it is. Returns the view of the tokens; null
  // if the drawer was closed meanwhile. Throws CallFailed.
  async show(message) {
    if (this.message?.id !== message.id) await this.#load(message);
    const isOpen = () => this.message?.id === message.id;
    await enter(WHY, message.id, isOpen);
    if (!isOpen()) return null; // it was closed meanwhile
    $("why").hidden = false;
    $("why").focus();
    this.mark();
    return this.#open.view;
  }

  // `back`: the focus returns to where it was when the drawer was opened.
  close({ back = false } = {}) {
    const { message, opener } = this.#open ?? {};
    this.#open = null;
    $("why").hidden = true;
    this.mark();
    if (message) leave(WHY, message.id);
    if (!back || !message) return;
    if (opener.isConnected && opener !== document.body && !$("why").contains(opener)) opener.focus();
    else focusIn(this.turns, message.id, "Why");
  }

  // Marks the answer that the drawer is about.
  mark() {
    for (const each of this.turns.querySelectorAll("article")) each.classList.toggle("explained", each.dataset.message === this.message?.id);
  }

  async #load(message) {
    const opener = document.activeElement;
    const { answer } = message;
    const ident = encodeURIComponent(answer.replace("answers/", ""));
    const found = await this.calls.get(`why/${ident}`);
    const { made, view } = drawer(found, message, {
      verify: () => this.calls.post("verify", { answer }),
      overlap: () => this.calls.get(`overlap/${ident}`),
      tokens: () => this.calls.get(`tokens/${ident}`),
      place: (at) => this.calls.get(`tokens/${ident}/${at}`),
      branch: (at, token) => this.branch(message, at, token),
    });
    $("why-body").replaceChildren(made);
    $("why-quote").replaceChildren(plain(document.createDocumentFragment(), message.text));
    $("why-quote").hidden = !message.text;
    $("why").scrollTop = 0;
    this.#open = { message, view, opener };
  }
}
