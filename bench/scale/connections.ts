/** Ten thousand connections that have had their answer and stay open: memory of each, and what others notice. */
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { insideServer } from "../../tests/inside/inside-server.ts";
import { EXAMPLES, ONLY_SIMPLE } from "../../tests/support/model-repository.ts";
import { eventually, readMetric, SIMPLE_REQUEST } from "../../tests/support/probe-server.ts";
import { startServerProcess } from "../../tests/support/server-process.ts";
import { kib, mib, type Row, rowOf, watched } from "./watched.ts";

const CONNECTIONS = 10_000;
/** Opened at once; a listener queues no more than some hundreds. */
const WIDTH = 100;
const HEAD = "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n";

export async function idleConnections(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "nereid-scale-"));
  const inside = await insideServer(folder);

  const server = await startServerProcess({ repositories: [EXAMPLES], flags: ONLY_SIMPLE, ...inside });
  const sockets: Socket[] = [];
  try {
    const infer = async (): Promise<void> => {
      const url = `${server.baseUrl}/v2/models/simple/infer`;
      const { status } = await fetch(url, { method: "POST", body: SIMPLE_REQUEST });
      if (status !== 200) throw new Error(`status ${status}`);
    };
    await infer();
    const before = (await inside.memory()).residentBytes;
    const opened = await watched(inside, () => openAll(server.http, sockets));
    const open = sockets.filter((socket) => !socket.destroyed).length;
    const during = (await inside.memory()).residentBytes;
    const note = `${open} open, ${kib((during - before) / open)} each, ${mib(during)} in all`;
    const beside = await watched(inside, infer);
    const page = await watched(inside, () => readMetric(server, "nv_inference_request_success"));
    const closed = await watched(inside, async () => {
      for (const socket of sockets) socket.destroy();
      await eventually(infer, () => true);
    });
    return [
      rowOf(`${CONNECTIONS} connections open, each with an answered request`, opened, note),
      rowOf(`a request beside ${CONNECTIONS} connections`, beside),
      rowOf(`the metrics page beside ${CONNECTIONS} connections`, page),
      rowOf(`${CONNECTIONS} connections leave at once`, closed),
    ];
  } finally {
    for (const socket of sockets) socket.destroy();
    await server.stop();
    rmSync(folder, { recursive: true });
  }
}

async function openAll(port: number, sockets: Socket[]): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next++ < CONNECTIONS) sockets.push(await openOne(port));
  };
  await Promise.all(Array.from({ length: WIDTH }, lane));
}

/** Resolves with the answer to its one request. */
function openOne(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(HEAD));
    socket.once("error", reject);
    socket.once("data", () => {
      socket.on("error", () => socket.destroy());
      socket.resume();
      resolve(socket);
    });
  });
}
