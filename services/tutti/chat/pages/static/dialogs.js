// The one dialog: it asks for a word, or whether something shall be done.

import { element } from "./markdown.js";

const $ = (id) => document.getElementById(id);

// Resolves with the text, or null.
export function askWord(title, word, confirm) {
  const input = element("input", { "aria-label": title, maxlength: "200", dir: "auto" });
  input.value = word;
  return open(title, input, confirm, () => input.value.trim() || null, input);
}

// Resolves with true, or null.
export function ask(title, words, confirm) {
  return open(title, element("p", {}, words), confirm, () => true, $("dialog-cancel"));
}

// Resolves with the key of one of `choices`, which have words by key, or null; the first one is chosen at the beginning.
export function askChoice(title, choices, confirm) {
  const body = element("div", { role: "radiogroup", "aria-label": title });
  for (const [key, words] of Object.entries(choices)) {
    body.append(element("label", { class: "choice" }, element("input", { type: "radio", name: "choice", value: key }), words));
  }
  const inputs = [...body.querySelectorAll("input")];
  inputs[0].checked = true;
  return open(title, body, confirm, () => inputs.find((each) => each.checked).value, inputs[0]);
}

// Resolves with a text of several lines, which may be empty, or null.
export function askText(title, about, label, most, confirm, words) {
  const field = element("textarea", { rows: "4", maxlength: `${most}`, dir: "auto" });
  const body = element("div", {}, element("p", {}, about), element("label", {}, label, field));
  return open(title, body, confirm, () => field.value, field, words);
}

function open(title, body, confirm, read, focused, { cancel = "Cancel", lang = "en" } = {}) {
  const dialog = $("dialog");
  dialog.lang = lang;
  $("dialog-cancel").textContent = cancel;
  $("dialog-title").textContent = title;
  $("dialog-body").replaceChildren(body);
  $("dialog-ok").textContent = confirm;
  dialog.showModal();
  focused.focus();
  return new Promise((resolve) => {
    let answer = null;
    $("dialog-form").onsubmit = () => (answer = read());
    $("dialog-cancel").onclick = () => dialog.close();
    dialog.onclose = () => resolve(answer);
  });
}
