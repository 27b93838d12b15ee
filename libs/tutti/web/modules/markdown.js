// Markdown of a model's answer as DOM nodes: paragraphs, headings, lists, tables, quotes, code, emphasis. Nothing in it is
// ever parsed as HTML, links are text, and characters that cannot be seen or that turn text around are shown by their number.
// The time is linear in the length of the text.

const DEEPEST = 5;
const LONGEST_RULE = 200;
// Joiners and variation selectors shape letters of some scripts, and emoji; anywhere else they only hide.
const JOINED = ["Arabic", "Syriac", "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala"]
  .map((script) => `\\p{Script=${script}}`)
  .join("");
const HIDDEN = new RegExp(
  "([\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200e\\u200f" +
    "\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb\\u{e0000}-\\u{e0fff}]" +
    `|(?<![${JOINED}\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\ufe0f])[\\u200c\\u200d]` +
    "|(?<![\\p{Script=Han}\\p{Extended_Pictographic}#*0-9])[\\ufe00-\\ufe0f])\\1*",
  "gu",
);
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}#{1,6} +/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const ITEM = /^( {0,12})([-*+]|\d{1,9}[.)]) +/;
const QUOTE = /^ {0,3}> ?/;
const COLUMNS = /^ {0,3}\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;
const MARKS = /\\[\\`*_#>+.!-]|`+|\*{1,3}|_{1,3}/g;

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Appends text; a run of a hidden character becomes one mark with its number.
export function plain(parent, written) {
  const text = written.replaceAll("\r\n", "\n");
  let at = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > at) parent.append(text.slice(at, found.index));
    const code = `U+${found[1].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    const times = found[0].length / found[1].length;
    parent.append(element("span", { class: "hidden-mark", dir: "ltr" }, times > 1 ? `${code} x ${times}` : code));
    at = found.index + found[0].length;
  }
  if (at < text.length) parent.append(text.slice(at));
  return parent;
}

export function markdown(text) {
  const made = document.createDocumentFragment();
  blocks(made, linesOf(text));
  return made;
}

export function linesOf(text) {
  return text.replaceAll("\r\n", "\n").split("\n");
}

// Appends one node for each block; returns the numbers of the lines with which they begin.
export function blocks(parent, lines, depth = 0) {
  const begun = [];
  let at = 0;
  const take = (while_) => {
    const begin = at;
    while (at < lines.length && while_(lines[at], at - begin)) at += 1;
    return lines.slice(begin, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    if (!line.trim()) {
      at += 1;
      continue;
    }
    begun.push(at);
    if (fence) {
      at += 1;
      const code = take((each) => !closes(each, fence[1]));
      at += 1;
      parent.append(element("pre", { dir: "ltr", tabindex: "0" }, plain(element("code"), code.join("\n"))));
    } else if (HEADING.test(line)) {
      at += 1;
      parent.append(inline(element("p", { class: "heading", ...own(depth) }), line.replace(HEADING, "")));
    } else if (line.length < LONGEST_RULE && RULE.test(line)) {
      at += 1;
      parent.append(element("hr"));
    } else if (QUOTE.test(line) && depth < DEEPEST) {
      const quoted = take((each) => QUOTE.test(each)).map((each) => each.replace(QUOTE, ""));
      const quote = element("blockquote", own(depth));
      blocks(quote, quoted, depth + 1);
      parent.append(quote);
    } else if (ITEM.test(line) && depth < DEEPEST) {
      at = list(parent, lines, at, depth);
    } else if (isTable(lines, at)) {
      const head = lines[at];
      at += 2;
      const rows = take((each) => each.includes("|") && each.trim() && !begins(each, depth));
      parent.append(table(head, rows, depth));
    } else {
      const paragraph = take((each, index) => index === 0 || (each.trim() && !begins(each, depth) && !isTable(lines, at)));
      parent.append(inline(element("p", own(depth)), paragraph.join("\n")));
    }
  }
  return begun;
}

// The direction of a block follows from its text; what is inside a list or a quote has that of the whole.
function own(depth) {
  return depth ? {} : { dir: "auto" };
}

function begins(line, depth) {
  return FENCE.test(line) || HEADING.test(line) || (depth < DEEPEST && (QUOTE.test(line) || ITEM.test(line)));
}

function closes(line, fence) {
  const trimmed = line.trim();
  return trimmed.length >= fence.length && trimmed.length < LONGEST_RULE && trimmed === fence[0].repeat(trimmed.length);
}

// True if a table begins there: a row, and a line of as many columns.
function isTable(lines, at) {
  const [head, columns = ""] = [lines[at], lines[at + 1]];
  if (!head.includes("|") || columns.length > LONGEST_RULE || !COLUMNS.test(columns)) return false;
  return cells(head).length === cells(columns).length;
}

function cells(row) {
  const inner = row.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((each) => each.trim().replaceAll("\\|", "|"));
}

// Wide tables scroll in a box of their own, which the keyboard reaches.
function table(head, rows, depth) {
  const row = (name, written) => element("tr", {}, ...cells(written).map((each) => inline(element(each ? name : "td"), each)));
  const body = element("tbody", {}, ...rows.map((each) => row("td", each)));
  const made = element("table", own(depth), element("thead", {}, row("th", head)), body);
  return element("div", { class: "scroll", role: "group", "aria-label": "Table", tabindex: "0" }, made);
}

// Appends the list that begins there; returns the line after it.
function list(parent, lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  const isNumbered = /\d/.test(first[2]);
  const made = element(isNumbered ? "ol" : "ul", own(depth));
  if (isNumbered) made.start = parseInt(first[2], 10);
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || found[1].length !== first[1].length || /\d/.test(found[2]) !== isNumbered) break;
    const room = found[1].length + 2;
    const inner = [lines[at].slice(found[0].length)];
    at += 1;
    while (at < lines.length && (indent(lines[at]) >= room || (!lines[at].trim() && indent(lines[at + 1] ?? "") >= room))) {
      inner.push(lines[at].slice(Math.min(indent(lines[at]), found[0].length)));
      at += 1;
    }
    const item = element("li");
    blocks(item, inner, depth + 1);
    made.append(item);
  }
  parent.append(made);
  return at;
}

function indent(line) {
  return line.trim() ? line.length - line.trimStart().length : 0;
}

// Emphasis and code. Marks are paired first, so that one without a partner stays as it is written.
function inline(parent, text) {
  const marks = [...text.matchAll(MARKS)];
  const partner = paired(text, marks);
  const parents = [parent];
  let at = 0;
  for (let number = 0; number < marks.length; number += 1) {
    const { 0: mark, index } = marks[number];
    if (index < at) continue;
    const other = partner.get(number);
    if (mark[0] === "\\") {
      plain(parents.at(-1), text.slice(at, index) + mark[1]);
    } else if (other === undefined) {
      continue;
    } else if (mark[0] === "`") {
      plain(parents.at(-1), text.slice(at, index));
      const end = marks[other].index;
      parents.at(-1).append(plain(element("code"), text.slice(index + mark.length, end)));
      at = end + mark.length;
      continue;
    } else {
      plain(parents.at(-1), text.slice(at, index));
      if (other > number) {
        const made = element(mark.length === 1 ? "em" : "strong");
        parents.at(-1).append(made);
        parents.push(made);
      } else {
        parents.pop();
      }
    }
    at = index + mark.length;
  }
  plain(parent, text.slice(at));
  return parent;
}

function paired(text, marks) {
  const partner = new Map();
  const following = new Map(); // of each length of backticks, the next run behind
  const closing = new Array(marks.length);
  for (let number = marks.length - 1; number >= 0; number -= 1) {
    const mark = marks[number][0];
    if (mark[0] !== "`") continue;
    closing[number] = following.get(mark.length);
    following.set(mark.length, number);
  }
  const open = [];
  for (let number = 0; number < marks.length; number += 1) {
    const { 0: mark, index } = marks[number];
    if (mark[0] === "`") {
      const end = closing[number];
      if (end === undefined) continue;
      partner.set(number, end);
      number = end;
      continue;
    }
    if (mark[0] === "\\") continue;
    const before = text[index - 1] ?? " ";
    const after = text[index + mark.length] ?? " ";
    const inWord = mark[0] === "_" && /[\p{L}\p{N}]/u.test(before) && /[\p{L}\p{N}]/u.test(after);
    if (inWord) continue;
    const place = before.trim() ? open.findLastIndex((each) => marks[each][0] === mark) : -1;
    if (place >= 0) {
      partner.set(open[place], number).set(number, open[place]);
      open.length = place;
    } else if (after.trim() && open.length < 8) {
      open.push(number);
    }
  }
  return partner;
}
