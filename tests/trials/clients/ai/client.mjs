// What a program does with the AI SDK: `node client.mjs BASE_URL TOKEN`.

import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, streamText } from "ai";
import packages from "./package.json" with { type: "json" };

const [baseURL, apiKey] = process.argv.slice(2);
const models = await fetch(`${baseURL}/models`, { headers: { Authorization: `Bearer ${apiKey}` } });
const [{ id }] = (await models.json()).data;

let requests = 0;
const counting = (...given) => (requests++, fetch(...given));
const tutti = createOpenAICompatible({ name: "tutti", baseURL, apiKey, includeUsage: true, fetch: counting });
const asked = { model: tutti(id), prompt: "a b c", seed: 5, maxOutputTokens: 20 };

const whole = await generateText(asked);
assert.ok(whole.text);
assert.ok(["stop", "length"].includes(whole.finishReason), whole.finishReason);
assert.ok(whole.usage.inputTokens > 0 && whole.usage.outputTokens > 0, "no usage");

const streamed = streamText(asked);
assert.equal((await Array.fromAsync(streamed.textStream)).join(""), whole.text);
assert.equal(await streamed.finishReason, whole.finishReason);
const usage = await streamed.usage;
assert.deepEqual([usage.inputTokens, usage.outputTokens], [whole.usage.inputTokens, whole.usage.outputTokens]);

const stranger = createOpenAICompatible({ name: "tutti", baseURL, apiKey: "wrong", fetch: counting });
const refusals = [
  [{ model: tutti("another") }, 404, /another/],
  [{ model: stranger(id) }, 401, /token/],
  [{ maxOutputTokens: 2 ** 40 }, 400, /max_tokens/],
  [{ temperature: 3 }, 400, /temperature/],
];
for (const [change, status, message] of refusals) {
  const refused = (error) => {
    assert.ok(APICallError.isInstance(error), `${error}`);
    assert.equal(error.statusCode, status);
    assert.match(error.message, message);
    return true;
  };
  requests = 0;
  await assert.rejects(generateText({ ...asked, ...change }), refused);
  const errors = [];
  await streamText({ ...asked, ...change, onError: ({ error }) => errors.push(error) }).consumeStream();
  assert.equal(errors.length, 1);
  refused(errors[0]);
  assert.equal(requests, 2, "a refusal was retried");
}

const leaving = new AbortController();
const parts = [];
for await (const part of streamText({ ...asked, maxOutputTokens: 200, abortSignal: leaving.signal }).fullStream) {
  parts.push(part.type);
  if (part.type === "text-delta") leaving.abort();
}
assert.equal(parts.at(-1), "abort");
assert.equal((await generateText(asked)).text, whole.text);

const version = packages.dependencies.ai;
console.log(`ai ${version}: texts whole and streamed, usage, ${refusals.length} refusals without retries, a stream that was left`);
