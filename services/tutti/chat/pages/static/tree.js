// A conversation as a tree of messages: which of them are shown, and which are beside them. Pure.

// The messages from the first one to a leaf, the newest unless `chosen` (a map from a parent to a child) says otherwise.
export function path(messages, chosen) {
  const children = Map.groupBy(messages, (each) => each.parent);
  const found = [];
  let parent = "";
  for (;;) {
    const every = children.get(parent);
    if (!every) return found;
    const next = every.find((each) => each.id === chosen.get(parent)) ?? every.at(-1);
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
