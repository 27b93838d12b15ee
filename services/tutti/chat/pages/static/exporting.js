// Saving a conversation as a file: the branch that is shown, or all of it.

import { CallFailed } from "./calls.js";
import { askChoice } from "./dialogs.js";
import { element } from "./markdown.js";
import { counted, written } from "./written.js";

const SAVED_MILLISECONDS = 60_000; // the browser may read a file after the click

// `shown` are the messages of one branch. Where there are others, the person chooses.
export async function save(calls, conversation, shown) {
  const all = conversation.messages;
  const choices = { shown: `What is shown: ${shown.length} of ${counted(all)}`, all: `Everything: ${counted(all)}, with all versions` };
  const choice = shown.length < all.length ? await askChoice("Export the conversation", choices, "Export") : "all";
  if (!choice) return;
  const text = written(conversation, choice === "all" ? all : shown, await moves(calls, conversation));
  const url = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  element("a", { href: url, download: `conversation-${conversation.id.slice(0, 8)}.md` }).click();
  setTimeout(() => URL.revokeObjectURL(url), SAVED_MILLISECONDS);
}

// The answers that moved to another replica, with how often; null if that cannot be read now.
async function moves(calls, { id }) {
  try {
    return (await calls.get(`moves/${encodeURIComponent(id)}`)).moves;
  } catch (failure) {
    if (!(failure instanceof CallFailed)) throw failure;
    return null;
  }
}
