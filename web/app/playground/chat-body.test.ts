import assert from "node:assert/strict";
import { test } from "node:test";
import { chatBody, FIRST_SETTINGS, NO_ANSWER, withPart } from "./chat-body.ts";
import { readEvents } from "./read-events.ts";

test("`chatBody()` has images as parts, and only what was set", () => {
  const settings = { ...FIRST_SETTINGS, system: "Be brief", temperature: "0.5", maxTokens: "", isStream: false };
  const body = chatBody("m", settings, [{ role: "user", text: "Look", images: ["data:image/png;base64,AA"] }]);
  assert.deepEqual(body, {
    model: "m",
    messages: [
      { role: "system", content: "Be brief" },
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url: "data:image/png;base64,AA" } },
          { type: "text", text: "Look" },
        ],
      },
    ],
    temperature: 0.5,
    stream: false,
  });
});

test("`chatBody()` says which setting is wrong", () => {
  assert.throws(() => chatBody("m", { ...FIRST_SETTINGS, tools: "{}" }, []), /Tools: expected a JSON array/);
  assert.throws(() => chatBody("m", { ...FIRST_SETTINGS, temperature: "hot" }, []), /Temperature: .* 'hot'/);
});

test("`withPart()` puts the parts of a stream together", () => {
  const parts = [
    { choices: [{ delta: { role: "assistant", reasoning_content: "hm" } }] },
    { choices: [{ delta: { content: "Hel" } }] },
    { choices: [{ delta: { content: "lo", tool_calls: [{ function: { name: "f", arguments: "{" } }] } }] },
    { choices: [{ delta: { tool_calls: [{ function: { arguments: "}" } }] } }] },
    { choices: [], usage: { completion_tokens: 4 } },
  ];
  const answer = parts.reduce((state, part) => withPart(state, JSON.stringify(part)), NO_ANSWER);
  assert.deepEqual(answer, { text: "Hello", reasoning: "hm", calls: "f{}", tokens: 4 });
  assert.throws(() => withPart(NO_ANSWER, '{"error":{"message":"too long"}}'), /too long/);
});

test("`readEvents()` joins what the network cut, and drops an event that breaks off", async () => {
  const pieces = ["data: a\n", "\nda", "ta: ü", "b\r\n\r\n: note\n\ndata: 1\ndata: 2\n\ndata: lost"];
  const bytes = pieces.map((piece) => new TextEncoder().encode(piece)).flatMap((piece) => [...piece]);
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const events: string[] = [];
  for await (const event of readEvents(body)) events.push(event);
  assert.deepEqual(events, ["a", "üb", "1\n2"]);
});
