// The list of conversations, as elements.

import { element, plain } from "./markdown.js";

const TIMES = [
  { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" },
  { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" },
].map((each) => new Intl.DateTimeFormat("en-GB", each));

// A title that several conversations have is shown with the times of their last changes. `open(id)` is called for a click.
export function shelf(conversations, current, open) {
  const alike = Map.groupBy(conversations, (each) => each.title);
  return conversations.map(({ id, title, changed_at: changed }) => {
    const link = plain(element("a", { href: `/chat/${id}`, dir: "auto" }), title);
    link.title = link.textContent;
    const others = alike.get(title);
    if (others.length > 1) link.append(element("small", { class: "soft" }, times(others).format(new Date(changed))));
    if (id === current) link.setAttribute("aria-current", "page");
    link.onclick = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      open(id);
    };
    return element("li", {}, link);
  });
}

// The shortest format in which the times differ.
function times(conversations) {
  const differ = (format) => new Set(conversations.map((each) => format.format(new Date(each.changed_at)))).size === conversations.length;
  return TIMES.find(differ) ?? TIMES.at(-1);
}
