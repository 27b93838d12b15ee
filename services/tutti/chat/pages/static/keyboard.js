// The keys of the page, and their help.

const $ = (id) => document.getElementById(id);

// `acts` has a function for each thing that keys do: `submit`, `editLast` (true if there was a message to edit), `begin`,
// `why`, `tokens`, and `escape`, which gets the event.
export function listen({ submit, editLast, begin, why, tokens, escape }) {
  const acts = { n: begin, m: () => $("text").focus({ preventScroll: true }), y: why, t: tokens };
  $("keys-open").onclick = () => toggle($("keys-open"), $("keys"), $("keys").hidden);
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    } else if (event.key === "ArrowUp" && !event.target.value && editLast()) event.preventDefault();
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || $("dialog").open) return;
    if (event.key === "Escape") return event.isComposing || escape(event);
    if (event.target.closest("input, textarea, select")) return;
    const act = acts[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

// Closes the help. Returns false if it was not open.
export function closeHelp() {
  const isOpen = !$("keys").hidden;
  toggle($("keys-open"), $("keys"), false);
  return isOpen;
}

// Opens or closes the part of the page that a button controls.
export function toggle(button, part, isOpen) {
  button.setAttribute("aria-expanded", `${isOpen}`);
  part.hidden = !isOpen;
}
