// Reporting a refusal of the filter as wrong, in the language of the refusal.

import { askText } from "./dialogs.js";

export const MOST_CHARACTERS = 500;
export const WORDS = {
  en: {
    report: "Report a wrong refusal",
    about: "Operators of this platform see which rule refused the text, and what you write here; not the conversation.",
    field: "What is wrong with it? (optional)",
    send: "Report",
    cancel: "Cancel",
    thanks: "It was reported.",
    before: "You reported it before.",
  },
  de: {
    report: "Zu Unrecht zurückgehalten: melden",
    about: "Die Betreiber dieser Plattform sehen, welche Regel den Text zurückhielt, und was Sie hier schreiben; nicht das Gespräch.",
    field: "Was ist daran falsch? (freiwillig)",
    send: "Melden",
    cancel: "Abbrechen",
    thanks: "Es wurde gemeldet.",
    before: "Sie haben es schon gemeldet.",
  },
  es: {
    report: "Informar de un rechazo equivocado",
    about: "Los operadores de esta plataforma ven qué regla rechazó el texto y lo que usted escribe aquí; no la conversación.",
    field: "¿Qué tiene de equivocado? (opcional)",
    send: "Informar",
    cancel: "Cancelar",
    thanks: "Se ha informado.",
    before: "Ya había informado de ello.",
  },
};

// Asks for words and reports the refusal of a message; the words that say so, or null.
export async function reportRefusal(message, post) {
  const said = WORDS[message.language];
  const words = await askText(said.report, said.about, said.field, MOST_CHARACTERS, said.send, {
    cancel: said.cancel,
    lang: message.language,
  });
  if (words === null) return null;
  const found = await post("report", { answer: message.answer, words });
  return found.new ? said.thanks : said.before;
}
