import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_JSON_DEPTH } from "../../core/limits.ts";
import type { HttpCall } from "../http/http-call.ts";
import { readJsonBody } from "./json-body.ts";

function read(text: string): Promise<unknown> {
  const bytes = Buffer.from(text);
  const call = { header: () => undefined, body: async () => ({ bytes, size: bytes.length }) } as unknown as HttpCall;
  return readJsonBody(call, 10 * 2 ** 20);
}

const nested = (depth: number): string => `${"[".repeat(depth)}${"]".repeat(depth)}`;

test("readJsonBody() takes the deepest body that is allowed, and none deeper", async () => {
  assert.ok(Array.isArray(await read(nested(MAX_JSON_DEPTH))));
  for (const depth of [MAX_JSON_DEPTH + 1, 1_000_000]) {
    await assert.rejects(read(nested(depth)), /nested more than 100 levels deep/);
  }
});

test("readJsonBody() counts no brackets in texts", async () => {
  assert.equal(await read(JSON.stringify(`"\\${"[{".repeat(500)}`)), `"\\${"[{".repeat(500)}`);
});
