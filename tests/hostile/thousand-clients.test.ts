import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { KeepAliveClient, type Outgoing } from "../support/hostile-http.ts";
import { EXAMPLES, SIMPLE_AND_PIPELINE } from "../support/model-repository.ts";
import { assertSound, eventually, readMetric, SIMPLE_REQUEST } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const NUM_CLIENTS = 1000;

let server: ServerProcess;
before(async () => {
  server = await startServerProcess({ repositories: [EXAMPLES], flags: SIMPLE_AND_PIPELINE });
});
after(() => server.stop());

const requests: readonly [what: string, rounds: number, outgoing: Outgoing][] = [
  ["a small model", 2, { path: "/v2/models/simple/infer", body: SIMPLE_REQUEST }],
  [
    "the language model",
    1,
    { path: "/v2/models/ensemble/generate", body: '{"text_input":"Once upon","max_tokens":2}' },
  ],
];
for (const [what, rounds, outgoing] of requests) {
  test(`a thousand clients at once of ${what} all get an answer, or are told that the server is full`, async () => {
    using client = new KeepAliveClient(server.http, NUM_CLIENTS);
    const once = async (): Promise<number> => {
      const { status, body } = await client.send(outgoing);
      assert.ok(status === 200 || (status === 503 && body.includes('"error"')), `${status} ${body}`);
      return status;
    };
    const oneClient = async (): Promise<number[]> => {
      const statuses: number[] = [];
      for (let round = 0; round < rounds; round += 1) statuses.push(await once());
      return statuses;
    };
    const statuses = (await Promise.all(Array.from({ length: NUM_CLIENTS }, oneClient))).flat();
    assert.equal(statuses.length, NUM_CLIENTS * rounds);
    assert.ok(statuses.includes(200));
    await eventually(
      () => readMetric(server, "nv_inference_pending_request_count"),
      (pending) => pending === 0,
    );
    await assertSound(server);
  });
}
