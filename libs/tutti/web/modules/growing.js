// Markdown that grows at its end. What was shown stays: a piece of text changes the last block alone, and of that the nodes
// that are different.

import { blocks, linesOf } from "./markdown.js";

const SETTLED_LINES = 2; // whole lines of the next block after which no text can change a block any more

export class Growing {
  #parent;
  #finished = 0; // blocks that no text can change any more
  #open = ""; // the text behind them

  constructor(parent) {
    this.#parent = parent;
  }

  push(text) {
    this.#open += text;
    const lines = linesOf(this.#open);
    const made = document.createDocumentFragment();
    const begun = blocks(made, lines);
    merge(this.#parent, made, this.#finished);
    const last = begun.findLastIndex((line) => line + SETTLED_LINES < lines.length);
    if (last > 0) {
      this.#finished += last;
      this.#open = lines.slice(begun[last]).join("\n");
    }
  }
}

// Makes the children of `parent` from number `at` on equal to those of `made`. Nodes that are equal already stay.
function merge(parent, made, at = 0) {
  let old = parent.childNodes[at] ?? null;
  for (const fresh of [...made.childNodes]) {
    const next = old?.nextSibling ?? null;
    if (!old) parent.append(fresh);
    else if (!old.isEqualNode(fresh)) {
      if (old.nodeType === Node.TEXT_NODE && fresh.nodeType === Node.TEXT_NODE) old.data = fresh.data;
      else if (old.cloneNode().isEqualNode(fresh.cloneNode())) merge(old, fresh);
      else old.replaceWith(fresh);
    }
    old = next;
  }
  while (old) {
    const next = old.nextSibling;
    old.remove();
    old = next;
  }
}
