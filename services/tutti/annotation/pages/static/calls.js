// The calls of the desk. A call fails as OFFLINE (try again), SIGNED_OUT (log in again as the same annotator) or REFUSED
// (the words say why); the session's form token is learnt from every answer.

export const OFFLINE = "offline";
export const SIGNED_OUT = "signed_out";
export const REFUSED = "refused";
const PLATFORM = "tutti-platform"; // the header with the id of the platform
const MILLISECONDS = 8000;

export class CallFailed extends Error {
  constructor(kind, words = "", seconds = 0) {
    super(words);
    this.kind = kind;
    this.seconds = seconds; // to wait before the next attempt, where the server says so
  }
}

export class Calls {
  constructor(campaign, annotator, token, platform) {
    this.campaign = campaign;
    this.annotator = annotator;
    this.token = token;
    this.platform = platform;
    this.isReplaced = false; // whether another annotator has signed in in this browser
  }

  // The standing of the annotator, if this browser's session is still his or hers.
  async state() {
    const { answer, token } = await this.#fetch(`/annotation/${encodeURIComponent(this.campaign)}/state.json`, {});
    this.isReplaced = answer.annotator !== this.annotator;
    if (this.isReplaced) throw new CallFailed(SIGNED_OUT);
    this.token = token ?? this.token;
    return answer;
  }

  async post(name, body) {
    const send = () =>
      this.#fetch(`/annotation/api/${name}`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-form-token": this.token },
        body: JSON.stringify({ campaign: this.campaign, ...body }),
      });
    try {
      return (await send()).answer;
    } catch (failure) {
      if (failure.status !== 403) throw failure;
      await this.state(); // another tab may have had the session's token replaced
      return (await send()).answer;
    }
  }

  async #fetch(path, options) {
    let response;
    let text;
    try {
      response = await fetch(path, { ...options, cache: "no-store", signal: AbortSignal.timeout(MILLISECONDS) });
      text = await response.text();
    } catch {
      throw new CallFailed(OFFLINE);
    }
    // Another program has the address of this page now: its answers, a good one too, say nothing of our judgements.
    if (response.headers.get(PLATFORM) !== this.platform) throw new CallFailed(OFFLINE);
    let answer = {};
    try {
      answer = JSON.parse(text);
    } catch {
      if (response.ok) throw new CallFailed(OFFLINE);
    }
    if (response.ok) return { answer, token: response.headers.get("x-form-token") };
    const words = answer.error?.message ?? answer.message ?? `${response.status}`;
    const wait = Number(response.headers.get("retry-after") ?? 0);
    let kind = REFUSED;
    if (response.status === 401) kind = SIGNED_OUT;
    else if (response.status === 429 || response.status >= 500) kind = OFFLINE;
    const failure = new CallFailed(kind, words, wait);
    failure.status = response.status;
    throw failure;
  }
}
