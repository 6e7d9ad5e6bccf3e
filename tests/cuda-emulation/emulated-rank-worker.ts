/** A rank with an emulated GPU, on a thread of its own. */
import { parentPort, workerData } from "node:worker_threads";
import { followSteps } from "../../server/src/engine/ranks/follow.ts";
import type { FromRank, RankThreadData } from "../../server/src/engine/ranks/worker-messages.ts";
import { workerPort } from "../../server/src/engine/ranks/worker-port.ts";
import { hostCompiler } from "./compile-emulation.ts";
import { openEmulatedRank } from "./emulated-rank.ts";

const { task, signal } = workerData as RankThreadData;
if (parentPort === null) throw new Error("a rank runs on a thread of its own");
const messages = parentPort;
const port = workerPort(messages, signal);

async function serve(): Promise<void> {
  const compiler = hostCompiler();
  port.opened();
  const [memory] = await port.ids();
  if (!(memory?.buffer instanceof SharedArrayBuffer)) throw new Error("expected the memory of an emulated group");
  const runner = await openEmulatedRank(compiler, memory.buffer, task.rank, task.layout, {
    ...task.options,
    tell: undefined,
  });
  port.ready(runner.numBlocks);
  await followSteps(runner, port);
  await runner.close();
}

serve().catch((error: unknown) => {
  const failed: FromRank = { kind: "failed", message: error instanceof Error ? error.message : String(error) };
  messages.postMessage(failed);
});
