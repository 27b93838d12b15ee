// One dialog, which shows a text or asks for words; the page behind it can be used again when it is closed.

import { element } from "./markdown.js";
import { say } from "./words.js";

const $ = (id) => document.getElementById(id);

// Resolves with what `read` returns when the dialog is confirmed, with null for Cancel, and with undefined for Escape.
function open(title, body, confirm, read, focused) {
  const dialog = $("dialog");
  $("dialog-title").textContent = title;
  $("dialog-body").replaceChildren(body);
  $("dialog-ok").textContent = confirm;
  $("dialog-cancel").hidden = read === null;
  $("dialog-cancel").textContent = say("cancel");
  dialog.showModal();
  if (focused) focused.focus();
  else dialog.scrollTop = 0; // the focus is on the button below the text
  return new Promise((resolve) => {
    const end = (value) => {
      $("dialog-form").onsubmit = $("dialog-cancel").onclick = dialog.oncancel = dialog.onclose = null;
      if (dialog.open) dialog.close();
      resolve(value);
    };
    $("dialog-form").onsubmit = (event) => {
      event.preventDefault();
      end(read === null ? null : read());
    };
    $("dialog-cancel").onclick = () => end(null);
    dialog.oncancel = (event) => {
      event.preventDefault();
      end(undefined);
    };
    dialog.onclose = () => dialog.open || end(undefined); // the event may be that of the dialog before
  });
}

// Resolves with true when the dialog is confirmed.
export function ask(title, body, confirm) {
  return open(title, body, confirm, () => true);
}

export function show(title, body) {
  return open(title, body, say("close"), null);
}

// `about` is a text or a node; `typed` is called with the text after each change. `starts` are labels and texts that the
// writing may start from, while nothing else was written; none of them is taken unchanged.
export function askWords(title, about, written, { longest = 4000, typed, confirm = say("keep"), starts = [] }) {
  const text = element("textarea", { "aria-label": title, dir: "auto", maxlength: `${longest}` });
  text.value = written;
  const buttons = starts
    .filter(([, start]) => start.trim() && start.length <= longest)
    .map(([label, start]) => [element("button", { type: "button" }, label), start]);
  const isStart = () => starts.some(([, start]) => start.trim() === text.value.trim());
  const changed = () => {
    for (const [button] of buttons) button.disabled = Boolean(text.value.trim()) && !isStart();
    text.setCustomValidity(text.value.trim() && isStart() ? say("unchanged") : "");
  };
  for (const [button, start] of buttons) {
    button.addEventListener("click", () => {
      text.value = start;
      text.focus();
      text.setSelectionRange(0, 0);
      text.scrollTop = 0;
      changed();
      typed(text.value);
    });
  }
  text.addEventListener("input", () => {
    changed();
    typed(text.value);
  });
  changed();
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    $("dialog-form").requestSubmit();
  });
  const told = typeof about === "string" ? element("p", { class: "soft" }, about) : about;
  const from = buttons.length ? [element("div", { class: "starts" }, ...buttons.map(([button]) => button))] : [];
  return open(title, element("div", {}, told, ...from, text), confirm, () => text.value, text);
}

// Asks for a file.
export function askFile(title, about, confirm) {
  const input = element("input", { type: "file", accept: ".json,application/json", "aria-label": title, required: "" });
  const body = element("div", {}, element("p", { class: "soft", dir: "auto" }, about), input);
  return open(title, body, confirm, () => input.files[0], input);
}

// Asks for one of `reasons`, with words where there are any.
export function askReason(title, reasons) {
  const chosen = reasons.map((reason) => {
    const input = element("input", { type: "radio", name: "reason", value: reason, required: "" });
    return element("label", {}, input, say(reason));
  });
  const list = element("div", { class: "reasons", role: "radiogroup", "aria-label": say("reason") }, ...chosen);
  const text = element("textarea", { dir: "auto", maxlength: "4000" });
  const about = element("label", {}, say("commentTitle"), text);
  const read = () => ({ reason: list.querySelector(":checked").value, comment: text.value });
  return open(title, element("div", {}, list, about), title, read, list.querySelector("input"));
}
