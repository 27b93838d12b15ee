// A conversation as a tree of messages: which of them are shown, and which are beside them. Pure.

// The messages from the first one to a leaf: at each, the branch with the newest message of all behind it, unless `chosen`
// (a map from a parent to a child) says otherwise. A message comes after its parent.
export function path(messages, chosen) {
  const children = Map.groupBy(messages, (each) => each.parent);
  const newest = new Map(messages.map((each, at) => [each.id, at]));
  for (const { id, parent } of messages.toReversed()) {
    newest.set(parent, Math.max(newest.get(parent) ?? 0, newest.get(id)));
  }
  const found = [];
  let parent = "";
  for (;;) {
    const every = children.get(parent);
    if (!every) return found;
    const latest = every.reduce((one, other) => (newest.get(other.id) > newest.get(one.id) ? other : one));
    const next = every.find((each) => each.id === chosen.get(parent)) ?? latest;
    found.push(next);
    parent = next.id;
  }
}

// The messages with the same parent, in their order; for answers, those to the same message.
export function siblings(messages, message) {
  return messages.filter((each) => each.parent === message.parent);
}

// The ids of the messages of turns that the filter refused, along one path: no model is given them.
export function refused(shown) {
  const answers = shown.filter((each) => each.finished === "content_filter");
  return new Set(answers.flatMap((each) => [each.parent, each.id]));
}

// The conversation as Markdown text, along one path.
export function written(title, shown) {
  const turns = shown.map((each) => `**${each.role === "user" ? "You" : each.model || "Model"}**\n\n${each.text}\n`);
  return `# ${title}\n\n${turns.join("\n")}`;
}
