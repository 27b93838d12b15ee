// A changed Markdown text as it is read: what is new is marked, what was removed is crossed out. Blocks (paragraphs,
// headings, items of lists) are compared first, then the words of a block and of the one that replaced it.

import { changes, differences } from "./differences.js";
import { element, markdown } from "./markdown.js";

const ALIKE = 0.5; // the share of the shorter block that both have, from which one replaces the other

// Fills `parent` with the text of `after`.
export function showChange(parent, before, after) {
  const [old, now] = [blocksOf(before), blocksOf(after)];
  const made = [];
  let [removed, added] = [[], []];
  const settle = () => {
    for (const block of removed) {
      const at = added.findIndex((each) => each.tagName === block.tagName && isAlike(block.textContent, each.textContent));
      if (at < 0) {
        made.push(marked(block, [[-1, block.textContent]]));
        continue;
      }
      for (const each of added.splice(0, at)) made.push(marked(each, [[1, each.textContent]]));
      const [replaced] = added.splice(0, 1);
      made.push(marked(replaced, differences(block.textContent, replaced.textContent)));
    }
    for (const each of added) made.push(marked(each, [[1, each.textContent]]));
    [removed, added] = [[], []];
  };
  for (const [kind] of changes(old.map(({ textContent }) => textContent), now.map(({ textContent }) => textContent))) {
    if (kind < 0) removed.push(old.shift());
    else if (kind > 0) added.push(now.shift());
    else {
      settle();
      old.shift();
      made.push(now.shift());
    }
  }
  settle();
  parent.replaceChildren(...made);
}

// The blocks of a text; each item of a list is one.
function blocksOf(text) {
  return [...element("div", {}, markdown(text)).children].flatMap((block) => {
    if (!["UL", "OL"].includes(block.tagName)) return [block];
    const first = Number(block.getAttribute("start") ?? 1);
    return [...block.children].map((item, at) => {
      const list = block.cloneNode();
      if (block.tagName === "OL") list.setAttribute("start", `${first + at}`);
      list.append(item);
      return list;
    });
  });
}

function isAlike(one, other) {
  const common = differences(one, other).reduce((sum, [kind, text]) => sum + (kind === 0 ? text.trim().length : 0), 0);
  return common >= ALIKE * Math.min(one.trim().length, other.trim().length);
}

// A block with marks. The texts of `found` with kind 0 and 1, or those of one other kind alone, are all of its text.
function marked(block, found) {
  const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  const isRemoved = found.every(([kind]) => kind < 0);
  for (const [kind, words] of found) {
    if (kind < 0 && !isRemoved) {
      const removed = element("del", {}, words);
      if (texts.length) texts[0].before(removed);
      else block.append(removed);
      continue;
    }
    for (let left = words.length; left > 0; ) {
      const text = texts.shift();
      if (text.length > left) texts.unshift(text.splitText(left));
      left -= text.length;
      if (kind === 0) continue;
      const mark = element(kind > 0 ? "mark" : "del");
      text.replaceWith(mark);
      mark.append(text);
    }
  }
  return block;
}
