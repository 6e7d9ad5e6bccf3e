import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { UsageLedger, usedTokens } from "./usage-ledger.ts";

const USE = {
  key: "team",
  model: "llama",
  route: "POST /v1/completions",
  status: 200,
  promptTokens: 7,
  cachedTokens: 4,
  completionTokens: 5,
  durationMs: 12.345,
};

test("lines are appended, and read back as sums per key, without those cut short", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "ledger-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "usage.jsonl");
  assert.deepEqual(await usedTokens(path), new Map());
  for (const key of ["team", "team", "other"]) {
    const ledger = new UsageLedger(path, {} as never);
    ledger.append({ ...USE, key });
    await ledger.close();
  }
  appendFileSync(path, '{"key":"team","prompt_tokens":1000,"comp');
  assert.deepEqual(
    await usedTokens(path),
    new Map([
      ["team", 24],
      ["other", 12],
    ]),
  );
  const [first = ""] = readFileSync(path, "utf8").split("\n");
  const { time, ...line } = JSON.parse(first);
  assert.ok(!Number.isNaN(Date.parse(time)));
  assert.deepEqual(line, {
    key: "team",
    model: "llama",
    route: "POST /v1/completions",
    status: 200,
    prompt_tokens: 7,
    cached_tokens: 4,
    completion_tokens: 5,
    duration_ms: 12.3,
  });
});

test("a ledger that cannot be written says so once and costs no request", async () => {
  const messages: string[] = [];
  const log = { error: (_: string, text: string) => messages.push(text) };
  const ledger = new UsageLedger("/nonexistent/folder/usage.jsonl", log as never);
  ledger.append(USE);
  await ledger.close();
  ledger.append(USE);
  assert.equal(messages.length, 1);
  assert.match(messages[0] ?? "", /^the usage ledger \/nonexistent\/folder\/usage\.jsonl is not written: /);
});
