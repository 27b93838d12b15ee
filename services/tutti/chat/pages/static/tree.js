// A conversation as a tree of messages: which of them are shown, and which are beside them. Pure.

// The messages behind `parent` to a leaf, from the first one on without it: at each, the branch with the newest message of
// all behind it, unless `chosen` (a map from a parent to a child) says otherwise. A message comes after its parent.
export function path(messages, chosen, parent = "") {
  const children = Map.groupBy(messages, (each) => each.parent);
  const newest = new Map(messages.map((each, at) => [each.id, at]));
  for (const { id, parent } of messages.toReversed()) {
    newest.set(parent, Math.max(newest.get(parent) ?? 0, newest.get(id)));
  }
  const found = [];
  for (let at = parent; ; at = found.at(-1).id) {
    const every = children.get(at);
    if (!every) return found;
    const latest = every.reduce((one, other) => (newest.get(other.id) > newest.get(one.id) ? other : one));
    const next = every.find((each) => each.id === chosen.get(at)) ?? latest;
    found.push(next);
  }
}

// What must be chosen so that the path ends with a message, as `path` takes it; nothing for a message that is not there.
export function leadingTo(messages, last) {
  const known = new Map(messages.map((each) => [each.id, each]));
  const chosen = new Map();
  for (let at = known.get(last); at; at = known.get(at.parent)) chosen.set(at.parent, at.id);
  return chosen;
}

// The messages with the same parent, in their order; for answers, those to the same message.
export function siblings(messages, message) {
  return messages.filter((each) => each.parent === message.parent);
}

// The messages that went on behind another version of a message of a path that ends with its turn: their number, and that
// version; null if there are none.
export function hidden(messages, shown) {
  for (const [at, message] of shown.entries()) {
    const turn = message.role === "user" ? 1 : 0; // a message of a person and its answer are one turn
    if (shown.length - 1 - at > turn) continue;
    const beside = siblings(messages, message).filter((each) => each.id !== message.id);
    const longest = beside
      .map((each) => ({ version: each, count: path(messages, new Map(), each.id).length - turn }))
      .reduce((one, other) => (other.count > one.count ? other : one), { count: 0 });
    if (longest.count > 0) return longest;
  }
  return null;
}

// The ids of the messages of turns that the filter refused, along one path: no model is given them.
export function refused(shown) {
  const answers = shown.filter((each) => each.finished === "content_filter");
  return new Set(answers.flatMap((each) => [each.parent, each.id]));
}
