// The settings of the next answer, in the fields of the page, and how they differ from the defaults.

const $ = (id) => document.getElementById(id);
const NUMBERS = { temperature: "temperature", top_p: "top p", max_tokens: "most tokens" };
const SHOWN_CHARACTERS = 40;

// `takesSystem`: the model has learnt system prompts.
export function settings(takesSystem) {
  const found = { model: $("model").value };
  if ($("system").value.trim() && takesSystem) found.system = $("system").value;
  for (const key of Object.keys(NUMBERS)) if ($(key).value !== "") found[key] = Number($(key).value);
  return found;
}

// Empty fields ask for the defaults, which are their placeholders.
export function setInputs({ model, system = "", ...numbers }) {
  if ([...$("model").options].some((each) => each.value === model)) $("model").value = model;
  $("system").value = system;
  for (const key of Object.keys(NUMBERS)) $(key).value = numbers[key] ?? "";
}

// In words; the default model is the first one that serves.
export function differences(chosen) {
  const found = [];
  const first = $("model").options[0]?.value;
  if (first && chosen.model !== first) found.push(`model ${chosen.model}`);
  for (const [key, words] of Object.entries(NUMBERS)) {
    if (chosen[key] !== undefined && `${chosen[key]}` !== $(key).placeholder) found.push(`${words} ${chosen[key]}`);
  }
  const system = chosen.system?.trim().replace(/\s+/g, " ");
  if (system) found.push(`system prompt “${system.length > SHOWN_CHARACTERS ? `${system.slice(0, SHOWN_CHARACTERS)}…` : system}”`);
  return found;
}

// The temperature of the next answer, whether chosen or not.
export function temperature() {
  return Number($("temperature").value || $("temperature").placeholder);
}

export function areEqual(one, other) {
  return ["model", "system", ...Object.keys(NUMBERS)].every((key) => one[key] === other[key]);
}

export function reset() {
  setInputs({ model: $("model").options[0]?.value });
}
