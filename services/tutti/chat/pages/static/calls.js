// The calls of the chat page, and the stream of an answer. A call fails as a CallFailed with the status of the answer, 0
// if there was none, and with the reason and the field of the error; the session's form token is learnt from every answer.

const PLATFORM = "tutti-platform"; // the header with the id of the platform
const MILLISECONDS = 15_000;

export class CallFailed extends Error {
  constructor(status, words, { reason = "", field = "", seen = "", expected = "" } = {}) {
    super(words);
    Object.assign(this, { status, reason, field, seen, expected });
  }
}

export class Calls {
  constructor(token, platform) {
    this.token = token;
    this.platform = platform;
  }

  get(path) {
    return this.#fetch(`/chat/api/${path}`, {});
  }

  async post(name, body) {
    const send = () =>
      this.#fetch(`/chat/api/${name}`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-form-token": this.token },
        body: JSON.stringify(body),
      });
    try {
      return await send();
    } catch (failure) {
      if (failure.status !== 403) throw failure;
      await this.get("models"); // another tab may have had the session's token replaced
      return send();
    }
  }

  // Calls `told(event)` with each event of an answer from piece `after` on. Throws CallFailed where the stream broke.
  async follow(answer, after, told, signal) {
    const path = `/chat/follow/${encodeURIComponent(answer.replace("answers/", ""))}?after=${after}`;
    let response;
    try {
      response = await fetch(path, { cache: "no-store", signal });
    } catch {
      throw new CallFailed(0, "the platform does not answer");
    }
    if (!response.ok || response.headers.get(PLATFORM) !== this.platform) {
      throw new CallFailed(response.status, `${response.status}`);
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const lines = (held + value).split("\n");
        held = lines.pop();
        for (const line of lines) if (line.startsWith("data: ")) told(JSON.parse(line.slice(6)));
      }
    } catch (failure) {
      throw failure instanceof CallFailed ? failure : new CallFailed(0, "the stream of the answer broke");
    }
  }

  async #fetch(path, options) {
    let response;
    let text;
    try {
      response = await fetch(path, { ...options, cache: "no-store", signal: AbortSignal.timeout(MILLISECONDS) });
      text = await response.text();
    } catch {
      throw new CallFailed(0, "the platform does not answer: try again");
    }
    if (response.headers.get(PLATFORM) !== this.platform) {
      throw new CallFailed(0, "another program has the address of this page now: open the link of `tutti open --chat`");
    }
    let answer = {};
    try {
      answer = JSON.parse(text);
    } catch {
      if (response.ok) throw new CallFailed(0, "the platform did not answer with JSON");
    }
    if (response.ok) {
      this.token = response.headers.get("x-form-token") ?? this.token;
      return answer;
    }
    if (response.status === 401) throw new CallFailed(401, "you are logged out: open a link of `tutti open --chat`");
    throw new CallFailed(response.status, answer.error?.message ?? `${response.status}`, answer.error);
  }
}
