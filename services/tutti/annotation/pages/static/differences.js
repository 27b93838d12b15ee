// Differences of two texts: a list of [kind, text] with kind 0 in both, -1 only in the first, 1 only in the second.
// Myers' algorithm (An O(ND) Difference Algorithm and Its Variations, 1986) over words; where texts differ too much for
// it, what is between their common beginning and end is different as a whole.

const MOST_EDITS = 1200;
const WORD = /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;

export function differences(first, second) {
  return joined(changes(first.match(WORD) ?? [], second.match(WORD) ?? []));
}

// The same of two lists of texts, with a [kind, text] for each of them.
export function changes(one, other) {
  let begin = 0;
  while (begin < one.length && begin < other.length && one[begin] === other[begin]) begin += 1;
  let end = 0;
  while (end < one.length - begin && end < other.length - begin && one.at(-1 - end) === other.at(-1 - end)) end += 1;
  const [left, right] = [one.slice(begin, one.length - end), other.slice(begin, other.length - end)];
  const same = (texts) => texts.map((text) => [0, text]);
  return [...same(one.slice(0, begin)), ...between(left, right), ...same(one.slice(one.length - end))];
}

function between(one, other) {
  const traces = [];
  const most = Math.min(one.length + other.length, MOST_EDITS);
  const reach = new Map([[1, 0]]);
  for (let edits = 0; edits <= most; edits += 1) {
    traces.push(new Map(reach));
    for (let k = -edits; k <= edits; k += 2) {
      const isDown = k === -edits || (k !== edits && reach.get(k - 1) < reach.get(k + 1));
      let x = isDown ? reach.get(k + 1) : reach.get(k - 1) + 1;
      while (x < one.length && x - k < other.length && one[x] === other[x - k]) x += 1;
      reach.set(k, x);
      if (x >= one.length && x - k >= other.length) return traced(one, other, traces);
    }
    if (edits * edits > 400_000) break; // the traces grow with the square
  }
  return [...one.map((text) => [-1, text]), ...other.map((text) => [1, text])];
}

function traced(one, other, traces) {
  const found = [];
  let [x, y] = [one.length, other.length];
  for (let edits = traces.length - 1; edits >= 0 && (x > 0 || y > 0); edits -= 1) {
    const reach = traces[edits];
    const k = x - y;
    const isDown = k === -edits || (k !== edits && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const before = isDown ? k + 1 : k - 1;
    const from = edits === 0 ? 0 : (reach.get(before) ?? 0);
    while (x > from && y > from - before && x > 0 && y > 0 && one[x - 1] === other[y - 1]) {
      found.push([0, one[x - 1]]);
      x -= 1;
      y -= 1;
    }
    if (edits === 0) break;
    if (isDown) {
      y -= 1;
      found.push([1, other[y]]);
    } else {
      x -= 1;
      found.push([-1, one[x]]);
    }
  }
  return found.reverse();
}

function joined(found) {
  const made = [];
  for (const [kind, text] of found) {
    if (!text) continue;
    if (made.at(-1)?.[0] === kind) made.at(-1)[1] += text;
    else made.push([kind, text]);
  }
  return made;
}
