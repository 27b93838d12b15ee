// Elements that scroll: two of them together, and each with a mark while there is more below.

// Two elements that scroll together, each to the same share of its height.
export function scrollTogether(left, right) {
  const moved = new Map(); // where an element was scrolled to by the other one; the event that this makes is not answered
  for (const [one, other] of [[left, right], [right, left]]) {
    one.addEventListener("scroll", () => {
      const isOurs = Math.abs(one.scrollTop - (moved.get(one) ?? -9)) <= 1;
      moved.delete(one);
      if (isOurs) return;
      const room = other.scrollHeight - other.clientHeight;
      const own = one.scrollHeight - one.clientHeight;
      if (room <= 0 || own <= 0) return;
      const wanted = Math.round((one.scrollTop / own) * room);
      if (Math.abs(other.scrollTop - wanted) < 1) return;
      moved.set(other, wanted);
      other.scrollTop = wanted;
    });
  }
}

// Shows `button` while `element` has more below what is seen; it goes on by most of what is seen.
export function markMore(element, button) {
  const look = () => (button.hidden = element.scrollTop + element.clientHeight >= element.scrollHeight - 2);
  const resized = new ResizeObserver(look);
  const watch = () => {
    resized.disconnect();
    for (const each of [element, ...element.children]) resized.observe(each);
    look();
  };
  element.addEventListener("scroll", look, { passive: true });
  new MutationObserver(watch).observe(element, { childList: true, subtree: true });
  button.addEventListener("click", () => {
    element.scrollBy({ top: element.clientHeight * 0.85, behavior: "instant" });
    look();
    if (button.hidden) element.focus({ preventScroll: true });
  });
  watch();
}
