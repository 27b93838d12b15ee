// The models that serve now, and what the page says about the chosen one.

import { element } from "./markdown.js";
import { standing } from "./why.js";

const $ = (id) => document.getElementById(id);

export class Models {
  #all = [];

  // `learnt` shows what a model learnt.
  constructor(calls, learnt) {
    this.calls = calls;
    this.learnt = learnt;
  }

  // True once one was found.
  get areKnown() {
    return this.#all.length > 0;
  }

  get chosen() {
    return this.#all.find((each) => each.name === $("model").value);
  }

  // Reads which serve now. The chosen one stays chosen, `before` that of the name `preferred`. Throws CallFailed.
  async load(preferred) {
    const before = $("model").value || preferred;
    this.#all = (await this.calls.get("models")).models;
    $("model").replaceChildren(
      ...this.#all.map(({ name, release }) => element("option", { value: name }, release ? name : `${name} (experiment)`)),
    );
    if (this.#all.some((each) => each.name === before)) $("model").value = before;
  }

  render() {
    const found = this.chosen;
    $("banner").hidden = Boolean(found?.release && found.release.standing === "active");
    $("banner").textContent = warning(found);
    $("empty-model").textContent = found?.name ?? "No model";
    $("empty-standing").replaceChildren(...(found ? standing(found.release).map((each) => element("span", {}, each.textContent, " ")) : []));
    $("empty-length").textContent = found ? `${found.length} tokens fit: those of a conversation and its answer together.` : "";
    this.learnt.show(found?.name);
    for (const key of ["temperature", "top_p"]) $(key).placeholder = found?.sampling[key] ?? 1;
    $("sampling").textContent = found ? drawnBy(found.sampling) : "";
    $("sampling-source").textContent = found?.sampling.source ?? "";
    $("sampling-origin").hidden = !found?.sampling.source;
    $("system").disabled = !found?.system;
    $("system-label").textContent = found && !found.system ? "System prompt (this model learnt none)" : "System prompt";
  }
}

function warning(model) {
  if (!model) return "No model serves: `tutti serve CHECKPOINT` lets one answer.";
  if (!model.release) return "This model is an experiment: it is not released.";
  if (model.release.missing) return `Whether the release of this model is active is not known: ${model.release.missing}.`;
  return `The release of this model is ${model.release.standing}.`;
}

function drawnBy({ source, top_k }) {
  const among = top_k ? ` Tokens are drawn from the ${top_k} likeliest.` : "";
  if (source.startsWith("samples/")) return `Fields that are empty have the values with which the released answers were drawn.${among}`;
  return source ? `Fields that are empty have the values that the model came with.${among}` : "";
}
