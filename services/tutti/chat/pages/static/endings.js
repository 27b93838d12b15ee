// The ends of answers, and what happened to them before, in sentences. Pure.

const LEFT_OUT = "The filter refused this turn: the model will not see it in later ones.";
const ENDS = { length: "It was cut: it may not be longer.", cancelled: "It was stopped.", content_filter: LEFT_OUT };

// Empty for an answer that ended by itself, and for one that has not ended.
export function ended({ state, finished, reason }) {
  if (state === "failed") return `The answer ended with an error and is not whole: ${reason}.`;
  return ENDS[finished] ?? "";
}

// An answer that has ended, in a sentence for those who hear the page.
export function told({ state }) {
  return { stopped: "The answer was stopped.", failed: "The answer ended with an error." }[state] ?? "The answer has ended.";
}

// Empty for an answer that did not move.
export function moved(count) {
  if (!count) return "";
  return `While it was made, it moved ${count === 1 ? "once" : `${count} times`} to another copy of the model, which continued it.`;
}

// An answer that continues another one; empty for others.
export function continued({ given }) {
  if (!given) return "";
  const before = given > 1 ? `its first ${given - 1} tokens are those of another version, and ` : "";
  return `Continued with another token: ${before}token ${given} was chosen by hand.`;
}

// Empty for an answer that saw all messages before it.
export function unseen({ unsent }) {
  if (!unsent) return "";
  return unsent === 1 ? "The model did not see the oldest message: it did not fit." : `The model did not see the ${unsent} oldest messages: they did not fit.`;
}
