import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { FakeModelServer } from "./grpc/fake-model-server.test-support.ts";
import { TestLog } from "./grpc/test-peer.test-support.ts";
import { createHttpFrontend, type HttpFrontend } from "./http/frontend.ts";

const server = new FakeModelServer();
let frontend: HttpFrontend;
let port = 0;
before(async () => {
  const options = { address: "127.0.0.1", port: 0, maxInputBytes: 10_000, forwardPattern: undefined, restricted: [] };
  frontend = createHttpFrontend({ server, options, log: new TestLog() });
  ({ port } = await frontend.listen());
});
after(() => frontend.close(0));

for (const [path, body] of [
  ["/v2/logging", { log_file: "/tmp/chosen" }],
  ["/v2/logging", { log_file: "" }],
  ["/v2/trace/setting", { trace_file: "/tmp/chosen" }],
  ["/v2/models/simple/trace/setting", { trace_file: "/tmp/chosen" }],
] as const) {
  test(`${path} takes no file: ${JSON.stringify(body)}`, async () => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", body: JSON.stringify(body) });
    assert.equal(response.status, 501);
    assert.match(await response.text(), /file location can not be updated through network protocol/);
    assert.equal(server.logSettings().log_file, "");
  });
}
