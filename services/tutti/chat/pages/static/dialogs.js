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

function open(title, body, confirm, read, focused) {
  const dialog = $("dialog");
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
