/** The shapes of gRPC's interoperability tests, by grpc-js and by Python's grpcio, and mixed calls without a trace. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { mixCalls, openShapeClient, SHAPE_MODELS, SHAPES } from "../support/grpc-shapes.ts";
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";
import { eventually, readMetric } from "../support/probe-server.ts";
import { clientVenv, runChecks } from "../support/python-checks.ts";
import { createRandom } from "../support/random.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const SEED = 20_261;
/** `npm run soak -- grpc-calls` makes them for half an hour. */
const NUM_MIXED = 600;

describe("gRPC interoperability", { timeout: 900_000 }, () => {
  let repository: ModelRepository;
  let server: ServerProcess;
  before(async () => {
    repository = await createModelRepository({ files: SHAPE_MODELS });
    const flags = ["--grpc-infer-response-compression-level=low", "--metrics-config=open_work=true"];
    server = await startServerProcess({ repositories: [repository.path], flags });
  });
  after(async () => {
    await server.stop();
    await repository[Symbol.asyncDispose]();
  });

  for (const encoding of [undefined, "gzip", "deflate"] as const) {
    for (const [name, run] of Object.entries(SHAPES)) {
      it(`grpc-js makes ${name}, ${encoding ?? "not"} compressed`, async () => {
        const client = openShapeClient(server.grpc, encoding);
        await run(client).finally(() => client.close());
      });
    }
  }

  it("grpcio makes calls of every shape", { skip: clientVenv.reason ?? false }, async (t) => {
    await runChecks(t, "grpc_interop.py", server);
  });

  it(`leaves nothing open after ${NUM_MIXED} mixed calls`, async () => {
    const numFiles = (): number => readdirSync(`/proc/${server.pid}/fd`).length;
    const counts = ["nereid_open_connections", "nereid_open_calls"];
    const gone = (): Promise<number[]> => Promise.all(counts.map((name) => readMetric(server, name, '"grpc"')));
    await eventually(gone, (values) => values.every((value) => value === 0));
    const before = numFiles();
    const random = createRandom(SEED);
    const made = await mixCalls({ port: server.grpc, random, numCalls: NUM_MIXED, width: 40, numConnections: 4 });
    assert.equal(
      [...made.values()].reduce((sum, count) => sum + count, 0),
      NUM_MIXED,
    );
    await eventually(gone, (values) => values.every((value) => value === 0));
    // The metrics are read over connections that are kept.
    assert.ok(numFiles() - before <= 4, `${numFiles()} open files, ${before} before`);
  });
});
