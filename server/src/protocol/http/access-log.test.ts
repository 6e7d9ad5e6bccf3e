import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeModelServer } from "../grpc/fake-model-server.test-support.ts";
import { TestLog } from "../grpc/test-peer.test-support.ts";
import { createHttpFrontend } from "./frontend.ts";

const OPTIONS = { address: "127.0.0.1", port: 0, maxInputBytes: 4096, forwardPattern: undefined, restricted: [] };
const INPUT = '{"name":"INPUT0","datatype":"INT32","shape":[1,2],"data":[1,2]}';

function infer(id: string): string {
  return JSON.stringify({ id, inputs: ["INPUT0", "INPUT1"].map((name) => ({ ...JSON.parse(INPUT), name })) });
}

test("each request is a line of the log, and so is the refusal or failure of an inference", async (t) => {
  const log = new TestLog();
  const frontend = createHttpFrontend({ server: new FakeModelServer(), options: OPTIONS, log });
  t.after(() => frontend.close(0));
  const { port } = await frontend.listen();
  const ask = async (path: string, body?: string): Promise<void> => {
    const init = body === undefined ? {} : { method: "POST", body };
    await (await fetch(`http://127.0.0.1:${port}${path}`, init)).arrayBuffer();
  };
  await ask("/v2/health/live?x=1");
  await ask("/v2/models/simple/infer", infer("7"));
  await ask("/v2/models/broken/infer", infer("a\nb"));
  await ask("/v2/models/none/infer", infer("9"));
  await ask("/v2/models/simple/generate", "{");
  await ask("/v2/nowhere");
  const failed = log.lines.filter((line) => line.includes("Infer failed"));
  assert.deepEqual(
    log.lines.filter((line) => !failed.includes(line)),
    [
      "1 http_server: HTTP request: 0 /v2/health/live",
      "1 http_server: HTTP request: 2 /v2/models/simple/infer",
      "1 http_server: HTTP request: 2 /v2/models/broken/infer",
      "1 http_server: HTTP request: 2 /v2/models/none/infer",
      "1 http_server: HTTP request: 2 /v2/models/simple/generate",
      "1 http_server: HTTP request: 0 /v2/nowhere",
      "1 http_server: HTTP error: 0 /v2/nowhere - 404",
    ],
  );
  const [broken, unknown, generate, ...rest] = failed;
  assert.match(broken ?? "", /^1 http_server: \[request id: a\nb\] Infer failed: /);
  assert.equal(
    unknown,
    "1 http_server: [request id: <id_unknown>] Infer failed: Request for unknown model: 'none' is not found",
  );
  assert.match(generate ?? "", /^1 http_server: \[request id: <id_unknown>\] Infer failed: ./);
  assert.deepEqual(rest, []);
});
