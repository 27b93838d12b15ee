// The list of conversations. On a small screen it covers the page while it is open, and the Back button closes it.

import { enter, leave } from "./entries.js";
import { element, plain } from "./markdown.js";

const $ = (id) => document.getElementById(id);
export const SHELF = "shelf"; // the part in the browser's history
const SEEN_WIDTH = 20; // of a title, in Latin characters: no screen cuts more of it
const TIMES = [
  { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" },
  { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" },
].map((each) => new Intl.DateTimeFormat("en-GB", each));

export class Shelf {
  // `current()` is the id of the conversation that is shown; `open(id)` is called for a click.
  constructor(calls, current, open) {
    Object.assign(this, { calls, current, open });
    $("menu").onclick = () => {
      this.show();
      $("new").focus();
    };
    $("shelf-close").onclick = () => this.close({ back: true });
    addEventListener("focusin", ({ target }) => $("shelf").contains(target) || this.close());
  }

  // Throws CallFailed.
  async list() {
    const words = $("search").value.trim();
    const { conversations } = await this.calls.get(`conversations?search=${encodeURIComponent(words)}`);
    $("none").hidden = conversations.length > 0 || !words;
    $("conversations").replaceChildren(...links(conversations, this.current(), this.open));
  }

  get isOpen() {
    return $("shelf").classList.contains("open");
  }

  // The focus is on a conversation of the list.
  get hasFocus() {
    return $("conversations").contains(document.activeElement);
  }

  show() {
    this.#toggle(true);
    enter(SHELF, true, () => this.isOpen);
  }

  // `back`: the focus returns to the button that opens the list.
  close({ back = false } = {}) {
    if (!this.isOpen) return;
    this.#toggle(false);
    leave(SHELF, true);
    if (back) $("menu").focus();
  }

  // Opens or closes the list as the entry of the browser's history has it.
  arrive() {
    const wasOpen = this.isOpen;
    this.#toggle(Boolean(history.state?.[SHELF]));
    if (this.isOpen !== wasOpen) (wasOpen ? $("menu") : $("new")).focus();
  }

  // Moves the focus to the conversation in the list, or where the list is closed, to the messages.
  focusChosen() {
    const link = $("conversations").querySelector("[aria-current]");
    link?.focus();
    if (document.activeElement !== link) $("turns").focus({ preventScroll: true });
  }

  #toggle(isOpen) {
    $("menu").setAttribute("aria-expanded", `${isOpen}`);
    $("shelf").classList.toggle("open", isOpen);
  }
}

// Titles that begin alike, so that a screen may cut them to the same text, are shown with the times of their last changes.
function links(conversations, current, open) {
  const alike = Map.groupBy(conversations, (each) => beginning(each.title));
  return conversations.map(({ id, title, changed_at: changed }) => {
    const link = plain(element("a", { href: `/chat/${id}`, dir: "auto" }), title);
    link.title = link.textContent;
    const others = alike.get(beginning(title));
    if (others.length > 1) link.append(element("small", { class: "soft" }, times(others).format(new Date(changed))));
    if (id === current) link.setAttribute("aria-current", "page");
    link.onclick = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      open(id);
    };
    return element("li", {}, link);
  });
}

// Characters of other scripts can be twice as wide as Latin ones.
function beginning(title) {
  let left = SEEN_WIDTH;
  return [...title].filter((each) => (left -= each < "\u0300" ? 1 : 2) >= 0).join("");
}

// The shortest format in which the times differ.
function times(conversations) {
  const differ = (format) => new Set(conversations.map((each) => format.format(new Date(each.changed_at)))).size === conversations.length;
  return TIMES.find(differ) ?? TIMES.at(-1);
}
