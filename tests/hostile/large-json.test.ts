import assert from "node:assert/strict";
import process from "node:process";
import { after, before, test } from "node:test";
import { loadWithLargeJson } from "../support/large-json-load.ts";
import { testSize } from "../support/long-tests.ts";
import { createModelRepository, EXAMPLES, GOLDEN_MODELS, type ModelRepository } from "../support/model-repository.ts";
import { assertSound, eventually, readMetric, residentBytes } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

/** For long runs by hand. */
const SEED = Number(process.env.NEREID_SEED ?? 7);
const NUM_ROUNDS = Number(process.env.NEREID_ROUNDS ?? testSize(3, 8));
const NUM_CLIENTS = 16;
/** The memory that is lent, the cache of responses, and what bodies and answers under way take beside them. */
const MAX_RESIDENT_BYTES = 1200 * 1024 * 1024;
/** One model whose answers are kept by the response cache. */
const CACHED = `
name: "id_int32" backend: "onnxruntime" max_batch_size: 0
input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] } ]
response_cache { enable: true }
`;

let repository: ModelRepository;
let server: ServerProcess;
before(async () => {
  repository = await createModelRepository({
    copies: [`${EXAMPLES}/simple`, ...["id_fp32", "id_int32", "id_bytes"].map((name) => `${GOLDEN_MODELS}/${name}`)],
    files: { "id_int32/config.pbtxt": CACHED },
  });
  const flags = ["--cache-config=local,size=16777216", "--metrics-config=open_work=true"];
  server = await startServerProcess({ repositories: [repository.path], flags });
});
after(async () => {
  await server.stop();
  await repository[Symbol.asyncDispose]();
});

test("large JSON is answered to each with its own values while others leave anywhere", async (t) => {
  const load = { port: server.http, seed: SEED, numClients: NUM_CLIENTS, numRounds: NUM_ROUNDS };
  const { numCompared, numLeft } = await loadWithLargeJson(load);
  assert.ok(numCompared > NUM_CLIENTS && numLeft > NUM_CLIENTS, `${numCompared} compared, ${numLeft} left`);
  await eventually(
    () => readMetric(server, "nereid_open_calls", '"http"'),
    (value) => value === 0,
  );
  const resident = await residentBytes(server.pid);
  t.diagnostic(`seed ${SEED}: ${numCompared} compared, ${numLeft} left, ${resident} bytes resident`);
  assert.ok(resident < MAX_RESIDENT_BYTES, `${resident} bytes are resident`);
  await assertSound(server);
});
