// The watch of an annotator: how long a pair was shown, and the minutes of work in this browser today. It stands still
// while the page is hidden or paused.

const KEPT = "tutti/annotation/time/";
export const BREAK_MINUTES = 45;
const IDLE_MILLISECONDS = 5 * 60_000; // of one pair; who needs longer is somewhere else

export class Watch {
  constructor(name) {
    this.key = `${KEPT}${name}/${new Date().toISOString().slice(0, 10)}`;
    this.spent = Number(localStorage.getItem(this.key) ?? 0);
    this.rested = Number(localStorage.getItem(`${this.key}/rested`) ?? 0);
    this.shown = 0;
    this.since = null;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#hold() : this.#resume()));
  }

  // A pair is shown.
  begin() {
    this.shown = 0;
    this.isShown = true;
    this.#resume();
  }

  stop() {
    this.#hold();
    this.isShown = false;
  }

  // The pair was judged: the milliseconds for which it was shown.
  end() {
    this.#hold();
    this.isShown = false;
    const shown = Math.round(this.shown);
    this.spent += Math.min(shown, IDLE_MILLISECONDS);
    try {
      localStorage.setItem(this.key, `${this.spent}`);
    } catch {
      return shown; // the minutes last as long as the page
    }
    return shown;
  }

  // Whether it is time for a break: once after each stretch of work without one.
  isBreakDue() {
    if (this.spent - this.rested < BREAK_MINUTES * 60_000) return false;
    this.rest();
    return true;
  }

  // A break begins.
  rest() {
    this.rested = this.spent;
    try {
      localStorage.setItem(`${this.key}/rested`, `${this.rested}`);
    } catch {
      return; // it lasts as long as the page
    }
  }

  get minutes() {
    return Math.floor(this.spent / 60_000);
  }

  #hold() {
    if (this.since !== null) this.shown += performance.now() - this.since;
    this.since = null;
  }

  #resume() {
    if (this.isShown && !document.hidden) {
      this.#hold();
      this.since = performance.now();
    }
  }
}
