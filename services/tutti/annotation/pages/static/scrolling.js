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
