/**
 * Loaded into a server under test by `--import`: answers on a Unix socket how much memory it holds after a collection, how long its event
 * loop was held, and writes heap snapshots. One JSON line a question. Child processes, which inherit the flag, answer nothing.
 */
import { createServer, type Socket } from "node:net";
import process from "node:process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString, writeHeapSnapshot } from "node:v8";
import { runInNewContext } from "node:vm";
import type { MemoryUse } from "./inside-server.ts";
import { LoopWatch } from "./loop-watch.ts";

const NUM_COLLECTIONS = 4;

const path = process.env.NEREID_TEST_INSIDE;
delete process.env.NEREID_TEST_INSIDE;
if (path !== undefined) listen(path);

function listen(socketPath: string): void {
  const watch = new LoopWatch();
  watch.restart(); // the start of the server counts
  const answers: Readonly<Record<string, (argument: string) => Promise<unknown>>> = {
    memory: memoryUse,
    watch: async () => watch.restart(),
    delay: async () => watch.read(),
    snapshot: async (file) => writeHeapSnapshot(file),
  };
  const server = createServer((socket: Socket) => {
    socket.on("error", () => socket.destroy());
    createInterface(socket).on("line", (line) => {
      const { ask, argument } = JSON.parse(line) as { ask: string; argument: string };
      void answers[ask]?.(argument).then((answer) => socket.write(`${JSON.stringify(answer ?? null)}\n`));
    });
  });
  server.listen(socketPath).unref();
}

/** Several collections, since finalizers of one make garbage for the next. */
async function memoryUse(): Promise<MemoryUse> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  for (let i = 0; i < NUM_COLLECTIONS; i++) {
    collect();
    await sleep(20);
  }
  const { rss, heapTotal, heapUsed, external, arrayBuffers } = process.memoryUsage();
  return {
    residentBytes: rss,
    heapTotalBytes: heapTotal,
    heapBytes: heapUsed,
    externalBytes: external,
    arrayBufferBytes: arrayBuffers,
  };
}
