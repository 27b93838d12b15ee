// Unsent texts of one person, by conversation and by message that is edited, unsent settings, and the branch that is shown, by
// conversation. They are kept in this browser, over reloads and for all of its tabs, until they are sent, their conversation
// is deleted, or the person logs out (web/static/kept.js).

const PREFIX = "tutti/chat/drafts/"; // in localStorage
const NEW = "new"; // in place of the id of a conversation that the server does not know
const SETTINGS = "settings"; // in place of the id of a message
const SHOWN = "shown"; // the same

export class Drafts {
  #beginning;
  #refused = new Map(); // texts that the browser did not store

  // Removes the drafts of everybody else.
  constructor(owner) {
    this.#beginning = `${PREFIX}${owner}/`;
    this.#remove((key) => key.startsWith(PREFIX) && !key.startsWith(this.#beginning));
  }

  of(conversation, message) {
    const key = this.#key(conversation, message);
    return this.#refused.get(key) ?? stored((storage) => storage.getItem(key)) ?? "";
  }

  // Returns false where the browser does not store the text: then it is kept as long as the page.
  keep(conversation, message, text) {
    const key = this.#key(conversation, message);
    this.#refused.delete(key);
    const isStored = stored((storage) => {
      if (text) storage.setItem(key, text);
      else storage.removeItem(key);
      return true;
    });
    if (!isStored && text) this.#refused.set(key, text);
    return Boolean(isStored) || !text;
  }

  // Null where there are none.
  settingsOf(conversation) {
    try {
      return JSON.parse(this.of(conversation, SETTINGS) || "null");
    } catch {
      return null;
    }
  }

  // Without `settings`, those that were kept are removed. Returns what `keep` returns.
  keepSettings(conversation, settings = null) {
    return this.keep(conversation, SETTINGS, settings ? JSON.stringify(settings) : "");
  }

  // The last message of the branch that was chosen; empty where none was, or where a message came later.
  shownOf(conversation) {
    const [count, id] = this.of(conversation, SHOWN).split(" ");
    return Number(count) === conversation.messages.length ? id : "";
  }

  keepShown(conversation, message) {
    this.keep(conversation, SHOWN, `${conversation.messages.length} ${message.id}`);
  }

  // All drafts of a conversation.
  forget(conversation) {
    this.#remove((key) => key.startsWith(this.#key(conversation)));
  }

  // All keys of a conversation begin with that of no message.
  #key(conversation, message = "") {
    return `${this.#beginning}${conversation.revision ? conversation.id : NEW}/${message}`;
  }

  #remove(isOne) {
    for (const key of this.#refused.keys()) if (isOne(key)) this.#refused.delete(key);
    stored((storage) => Object.keys(storage).filter(isOne).forEach((key) => storage.removeItem(key)));
  }
}

// Null where the browser lets this page store nothing, or no more.
function stored(work) {
  try {
    return work(localStorage);
  } catch {
    return null;
  }
}
