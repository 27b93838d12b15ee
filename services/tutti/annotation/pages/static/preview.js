// The preview of a campaign: its guideline, prompts and answers as the desk shows them; without script they are plain.

import { element } from "./markdown.js";
import { showText } from "./textview.js";

for (const written of document.querySelectorAll("pre.wrapped")) {
  const text = element("div", { class: "text", dir: "auto" });
  showText(text, written.textContent);
  written.replaceWith(text);
}
