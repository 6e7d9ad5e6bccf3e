import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { type ChatBody, chatSnippets, type InferBody, inferSnippets, pythonValue } from "./snippets.ts";

const SERVER = { url: "http://127.0.0.1:8000", headers: { authorization: "Bearer sk-1" } };
const CHAT: ChatBody = {
  model: "m",
  messages: [
    { role: "user", content: [{ type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(500)}` } }] },
    { role: "user", content: `It's "quoted" \\ and $HOME\nin two lines` },
  ],
  tools: [{ type: "function", function: { name: "f", strict: true, parameters: null } }],
  stream: true,
};
const INFER: InferBody = {
  inputs: [
    { name: "a", datatype: "INT64", shape: [1, 2], data: [1, 2] },
    { name: "b", datatype: "BYTES", shape: [1], data: ["it's"] },
    { name: "c", datatype: "BOOL", shape: [2], data: [true, false] },
  ],
};

/** The body that a shell would send: `curl` in its place prints its last argument. */
function sentBy(script: string): unknown {
  const program = `curl() { for last; do :; done; printf %s "$last"; }\n${script}`;
  const { stdout, stderr, status } = spawnSync("sh", ["-c", program], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

test("curl sends the body of the playground, whatever is in it", () => {
  assert.deepEqual(sentBy(inferSnippets(SERVER, "m", INFER).curl), INFER);
  const text = { ...CHAT, messages: CHAT.messages.slice(1) };
  assert.deepEqual(sentBy(chatSnippets(SERVER, text).curl), text);
});

test("snippets have a place for an image, and not its data", () => {
  for (const snippet of Object.values(chatSnippets(SERVER, CHAT))) {
    assert.match(snippet, /data:image\/png;base64,<base64 of the image>/);
    assert.doesNotMatch(snippet, /AAAA/);
  }
});

test("Python snippets are Python", () => {
  const texts = [chatSnippets(SERVER, CHAT).Python, inferSnippets(SERVER, "m", INFER).Python];
  for (const text of texts) {
    const check = "import ast, sys; ast.parse(sys.stdin.read())";
    const { status, stderr } = spawnSync("python3", ["-c", check], { input: text, encoding: "utf8" });
    assert.equal(status, 0, `${stderr}${text}`);
  }
});

test("`pythonValue()` writes what Python reads as the same value", () => {
  const value = {
    a: [true, false, null, 1.5],
    b: 'it\'s "x"\n',
    c: {},
    long: "x".repeat(80),
    list: [["y".repeat(80)]],
  };
  for (const depth of [undefined, 1]) {
    const input = `import json; print(json.dumps(${pythonValue(value, depth)}))`;
    const { stdout, stderr } = spawnSync("python3", ["-"], { input, encoding: "utf8" });
    assert.deepEqual(JSON.parse(stdout || "null"), value, stderr);
  }
});

test("TypeScript snippets call the clients with the types of the tensors", () => {
  const { TypeScript } = inferSnippets(SERVER, "m", INFER);
  assert.match(TypeScript, /tensor\("a", "INT64", \[1,2\], BigInt64Array\.of\(1n, 2n\)\)/);
  assert.match(TypeScript, /tensor\("b", "BYTES", \[1\], \["it's"\]\)/);
  assert.match(TypeScript, /tensor\("c", "BOOL", \[2\], Uint8Array\.of\(1, 0\)\)/);
  assert.match(chatSnippets(SERVER, CHAT).TypeScript, /model: "m",/);
});
