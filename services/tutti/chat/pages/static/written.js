// A conversation as Markdown text. Pure.

import { continued, ended, moved, unseen } from "./endings.js";
import { siblings } from "./tree.js";

// `messages` are all of the conversation, or one branch. `moves` says how often an answer moved, by its name; null if that is
// not known.
export function written({ title, messages: all }, messages, moves) {
  const numbers = new Map(messages.map(({ id }, at) => [id, at + 1]));
  const about = [];
  const isWhole = messages.length === all.length;
  const which = isWhole ? `${counted(all)}: all of the conversation.` : `${messages.length} of ${counted(all)}: the branch that was shown.`;
  about.push(`_${which} A message is what a person wrote or a model answered, and each version of it is one._`);
  if (!moves) about.push("_It could not be read which answers moved to another copy of the model._");
  const made = messages.map((message, at) => one(message, at, { all, messages, numbers, moves }));
  return [`# ${title}`, ...about, ...made].map((each) => `${each}\n`).join("\n");
}

export function counted({ length }) {
  return length === 1 ? "1 message" : `${length} messages`;
}

function one(message, at, { all, messages, numbers, moves }) {
  const about = [`${at + 1}. ${message.role === "user" ? "You" : message.model || "Model"}`];
  const before = messages[at - 1]?.id ?? "";
  if (message.parent !== before) about.push(message.parent ? `after ${numbers.get(message.parent)}` : "at the beginning");
  const versions = siblings(all, message);
  if (versions.length > 1) about.push(`version ${versions.findIndex(({ id }) => id === message.id) + 1} of ${versions.length}`);
  const notes = message.state === "running" ? ["It is still being made."] : [ended(message)];
  notes.push(moved(moves?.[message.answer]), continued(message), unseen(message));
  return [`**${about.join(", ")}**`, message.text, ...notes.filter(Boolean).map((each) => `_${each}_`)].join("\n\n");
}
