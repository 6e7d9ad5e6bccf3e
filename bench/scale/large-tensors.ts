/** A tensor of a gigabyte, there and back, over HTTP, gRPC and shared memory, with small requests beside it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, credentials } from "@grpc/grpc-js";
import { encode, identity, MODEL_INFER } from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { SharedMemoryObject } from "../../tests/fakes/shared-memory-object.ts";
import { type InsideServer, insideServer } from "../../tests/inside/inside-server.ts";
import { KeepAliveClient } from "../../tests/support/hostile-http.ts";
import { type ServerProcess, startServerProcess } from "../../tests/support/server-process.ts";
import { loadRepository } from "../../tests/support/steady-load.ts";
import { mib, type Row, rowOf, type Watched, watched } from "./watched.ts";

const BYTES = 2 ** 30;
/** A message of gRPC has at most 2^31 - 1 bytes, and protobufjs's writer needs two copies of it. */
const GRPC_BYTES = 2 ** 29;
const BESIDE_PERIOD_MS = 20;
const SMALL = JSON.stringify({ inputs: [{ name: "INPUT0", datatype: "INT32", shape: [1], data: [7] }] });

export async function largeTensors(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "nereid-scale-"));
  const inside = await insideServer(folder);
  await using repository = await loadRepository();
  const flags = ["--http-max-input-size=2147483647", "--allow-client-shm=true"];
  const server = await startServerProcess({ repositories: [repository.path], flags, ...inside });
  const rows: Row[] = [];
  try {
    for (const [name, send] of [
      [`${mib(BYTES)} over HTTP`, overHttp],
      [`${mib(GRPC_BYTES)} over gRPC`, overGrpc],
      [`${mib(BYTES)} in shared memory`, inSharedMemory],
    ] as const) {
      const { measured, slowestMs } = await withSmallOnes(inside, server, () => send(server));
      const { residentBytes } = await inside.memory();
      rows.push(
        rowOf(
          name,
          measured,
          `slowest small request beside it ${slowestMs.toFixed(0)} ms; ${mib(residentBytes)} afterwards`,
        ),
      );
    }
    return rows;
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true });
  }
}

async function withSmallOnes(
  inside: InsideServer,
  server: ServerProcess,
  work: () => Promise<void>,
): Promise<{ measured: Watched<void>; slowestMs: number }> {
  using client = new KeepAliveClient(server.http, 1);
  let isOver = false;
  let slowestMs = 0;
  const ask = async (): Promise<void> => {
    while (!isOver) {
      const startMs = performance.now();
      await client.send({ path: "/v2/models/echo/infer", body: SMALL });
      slowestMs = Math.max(slowestMs, performance.now() - startMs);
      await sleep(BESIDE_PERIOD_MS);
    }
  };
  const asking = ask();
  const measured = await watched(inside, work).finally(() => {
    isOver = true;
  });
  await asking;
  return { measured, slowestMs };
}

/** In pieces, so that the client holds no copy. */
async function overHttp({ http }: ServerProcess): Promise<void> {
  const count = BYTES / 4;
  const input = { name: "INPUT0", datatype: "INT32", shape: [count], parameters: { binary_data_size: BYTES } };
  const head = Buffer.from(JSON.stringify({ inputs: [input], parameters: { binary_data_output: true } }));
  const piece = Buffer.alloc(2 ** 22, 5);
  async function* parts(): AsyncGenerator<Uint8Array> {
    yield head;
    for (let sent = 0; sent < BYTES; sent += piece.length) yield piece;
  }
  const response = await fetch(`http://127.0.0.1:${http}/v2/models/echo/infer`, {
    method: "POST",
    headers: { "Inference-Header-Content-Length": `${head.length}` },
    body: ReadableStream.from(parts()),
    duplex: "half",
  } as RequestInit);
  let received = 0;
  for await (const chunk of response.body ?? []) received += chunk.length;
  if (response.status !== 200 || received < BYTES) throw new Error(`status ${response.status}, ${received} bytes`);
}

async function overGrpc({ grpc }: ServerProcess): Promise<void> {
  const client = new Client(`127.0.0.1:${grpc}`, credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
  });
  const message = encode("inference.ModelInferRequest", {
    model_name: "echo",
    inputs: [{ name: "INPUT0", datatype: "INT32", shape: [GRPC_BYTES / 4] }],
    raw_input_contents: [Buffer.alloc(GRPC_BYTES, 5)],
  });
  const answer = await new Promise<Buffer>((resolve, reject) => {
    client.makeUnaryRequest(MODEL_INFER, identity, identity, message, (error, bytes) => {
      if (error !== null || bytes === undefined) reject(error ?? new Error("no answer"));
      else resolve(bytes);
    });
  });
  client.close();
  if (answer.length < GRPC_BYTES) throw new Error(`${answer.length} bytes`);
}

async function inSharedMemory({ baseUrl }: ServerProcess): Promise<void> {
  using object = new SharedMemoryObject(2 * BYTES);
  const post = async (path: string, body: object): Promise<void> => {
    const response = await fetch(`${baseUrl}/v2/${path}`, { method: "POST", body: JSON.stringify(body) });
    if (response.status !== 200) throw new Error(await response.text());
    await response.arrayBuffer();
  };
  await post("systemsharedmemory/region/large/register", { key: object.key, byte_size: 2 * BYTES });
  const place = { shared_memory_region: "large", shared_memory_byte_size: BYTES };
  await post("models/echo/infer", {
    inputs: [{ name: "INPUT0", datatype: "INT32", shape: [BYTES / 4], parameters: place }],
    outputs: [{ name: "OUTPUT0", parameters: { ...place, shared_memory_offset: BYTES } }],
  });
  await post("systemsharedmemory/region/large/unregister", {});
}
