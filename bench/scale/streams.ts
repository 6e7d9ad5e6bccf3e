/** A thousand streams at once, over HTTP and over gRPC, from a model that sends a part every tenth of a second. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, credentials } from "@grpc/grpc-js";
import { encode, identity, STREAM_INFER } from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { insideServer } from "../../tests/inside/inside-server.ts";
import { KeepAliveClient } from "../../tests/support/hostile-http.ts";
import { type ServerProcess, startServerProcess } from "../../tests/support/server-process.ts";
import { loadRepository } from "../../tests/support/steady-load.ts";
import { type Row, rowOf, watched } from "./watched.ts";

const STREAMS = 1000;
const PARTS = 50;
const PERIOD_MS = 100;

export async function manyStreams(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "nereid-scale-"));
  const inside = await insideServer(folder);
  await using repository = await loadRepository();
  const server = await startServerProcess({ repositories: [repository.path], ...inside });
  const note = `${PARTS} parts each, one every ${PERIOD_MS} ms`;
  try {
    const http = await watched(inside, () => overHttp(server));
    const grpc = await watched(inside, () => overGrpc(server));
    return [
      rowOf(`${STREAMS} streams at once over HTTP`, http, note),
      rowOf(`${STREAMS} streams at once over gRPC, on one connection`, grpc, note),
    ];
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true });
  }
}

async function overHttp({ http }: ServerProcess): Promise<void> {
  using client = new KeepAliveClient(http, STREAMS);
  const body = JSON.stringify({ IN: Array(PARTS).fill(1), DELAY: Array(PARTS).fill(PERIOD_MS), WAIT: [0] });
  const one = async (): Promise<void> => {
    const reply = await client.send({ path: "/v2/models/repeat/generate_stream", body });
    const parts = reply.body.toString().match(/"OUT":/g)?.length;
    if (reply.status !== 200 || parts !== PARTS) throw new Error(`status ${reply.status}, ${parts} parts`);
  };
  await Promise.all(Array.from({ length: STREAMS }, one));
}

async function overGrpc({ grpc }: ServerProcess): Promise<void> {
  const client = new Client(`127.0.0.1:${grpc}`, credentials.createInsecure());
  const bytes = (values: Int32Array): Buffer => Buffer.from(values.buffer);
  const names = { IN: "INT32", DELAY: "UINT32", WAIT: "UINT32" };
  const values = [new Int32Array(PARTS).fill(1), new Int32Array(PARTS).fill(PERIOD_MS), Int32Array.of(0)];
  const message = encode("inference.ModelInferRequest", {
    model_name: "repeat",
    inputs: Object.entries(names).map(([name, datatype], i) => ({ name, datatype, shape: [values[i]?.length] })),
    raw_input_contents: values.map(bytes),
  });
  const one = (): Promise<void> =>
    new Promise((resolve, reject) => {
      let parts = 0;
      const stream = client.makeBidiStreamRequest(STREAM_INFER, identity, identity);
      stream.on("data", () => (parts += 1));
      stream.on("error", reject);
      stream.on("end", () => (parts === PARTS ? resolve() : reject(new Error(`${parts} parts`))));
      stream.end(message);
    });
  await Promise.all(Array.from({ length: STREAMS }, one));
  client.close();
}
