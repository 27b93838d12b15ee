// Keys: one press counts once, however long it is held; digits and letters are found on any layout.

const DIGIT = /^(?:Digit|Numpad)([0-5])$/;
const LETTER = /^[a-z?]$/;

// Calls `pressed(key)` with "0" to "5", a small letter, "?" or "Enter"; it returns whether the key was used.
export function listenToKeys(pressed) {
  const down = new Set();
  addEventListener("keyup", (event) => down.delete(event.code));
  addEventListener("blur", () => down.clear());
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest?.("textarea, select, dialog")) return;
    const key = keyOf(event);
    if (!key || (key === "Enter" && event.target.closest?.("button, input, a, summary"))) return;
    if (event.repeat || down.has(event.code)) {
      if (key !== "Enter") event.preventDefault();
      return;
    }
    down.add(event.code);
    if (pressed(key)) event.preventDefault();
  });
}

function keyOf(event) {
  const digit = DIGIT.exec(event.code);
  if (digit && !event.shiftKey) return digit[1];
  if (event.key === "Enter") return event.key;
  const key = event.key.toLowerCase();
  if (LETTER.test(key)) return key;
  // The key of a layout with other letters, by its place.
  return event.key.length === 1 && event.key > "\u007f" && event.code.startsWith("Key") ? event.code.at(-1).toLowerCase() : "";
}
