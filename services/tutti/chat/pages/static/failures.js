// Failed calls in words for the person at the page: what happened, and what to do. Pure.

const FIELDS = { temperature: "The temperature", top_p: "Top p", max_tokens: "The most tokens", system: "The system prompt" };
const REASONS = {
  CONVERSATION_CHANGED: "the conversation was changed in another tab or on another device",
  REQUEST_GONE: "what was kept of this answer has been deleted, after 30 days or with its conversation",
};

// `length` is the context of the model in tokens.
export function said(failure, length) {
  const { status, reason, message } = failure;
  if (reason === "INVALID_FIELD") return ofField(failure, length);
  if (REASONS[reason]) return REASONS[reason];
  if (reason === "NOT_FOUND") return "it does not exist any more: it was deleted, or belongs to somebody else";
  if (reason === "RATE_LIMIT_EXCEEDED") return message.replace("the limit of this token", "your limit");
  if (status >= 500 && !reason) return `something failed on the platform: try again, or tell whoever runs it (${message})`;
  return message;
}

// The same as a sentence.
export function sentence(failure, length) {
  const words = said(failure, length);
  return `${words[0].toUpperCase()}${words.slice(1)}${/[.!?)`]$/.test(words) ? "" : "."}`;
}

function ofField({ field, seen, expected, message }, length) {
  const found = seen.replace(/^'(.*)'$/s, "$1");
  if (field === "text" && found.endsWith(" tokens")) {
    return `the message is too long for this model: with the system prompt it has ${found}, and must have fewer than ${length}. Shorten it`;
  }
  if (field === "text" && found.endsWith(" bytes")) return `the text is too long: it has ${found}, and may have ${expected}. Shorten it`;
  if (field === "text") return `the model cannot read this: ${expected}`;
  if (field === "title") return "a title needs a word";
  if (FIELDS[field]) return `${FIELDS[field]} must be ${expected}, and is ${found}. Correct it in the settings`;
  return `the platform did not understand this page: load it again (${message})`;
}
