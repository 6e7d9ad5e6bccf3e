import assert from "node:assert/strict";
import { test } from "node:test";
import type { Logger } from "../../observe/log.ts";
import { createMetricsFrontend } from "./frontend.ts";

const ANSWERS: [string, string, number, string, string][] = [
  ["GET", "/metrics", 200, "text/plain; charset=utf-8", "# up\n"],
  ["GET", "/metrics/?x=1", 200, "text/plain; charset=utf-8", "# up\n"],
  ["GET", "/other", 200, "text/plain; charset=utf-8", ""],
  ["POST", "/metrics", 405, "text/plain", '{"error":"Method Not Allowed"}'],
];

function logger(errors: string[]): Logger {
  const ignore = (): undefined => undefined;
  return { info: ignore, warn: ignore, error: (_, text) => errors.push(text), verbose: ignore, table: ignore };
}

test("the metrics port answers by path and method", async () => {
  const render = (): Promise<string> => Promise.resolve("# up\n");
  const frontend = createMetricsFrontend({ render, address: "127.0.0.1", port: 0, log: logger([]) });
  const { port } = await frontend.listen();
  for (const [method, path, status, contentType, body] of ANSWERS) {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method });
    assert.deepEqual(
      [response.status, response.headers.get("content-type"), await response.text()],
      [status, contentType, body],
    );
  }
  await frontend.close({ graceMs: 0 });
});

test("a failure to render is a 500 without its cause, which goes to the log", async () => {
  const errors: string[] = [];
  const render = (): string => {
    throw new Error("secret");
  };
  const frontend = createMetricsFrontend({ render, address: "127.0.0.1", port: 0, log: logger(errors) });
  const { port } = await frontend.listen();
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  assert.deepEqual([response.status, await response.text()], [500, '{"error":"Internal error"}']);
  assert.match(errors.join(), /secret/);
  await frontend.close({ graceMs: 0 });
});
