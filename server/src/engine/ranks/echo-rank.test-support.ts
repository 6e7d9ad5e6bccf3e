/** A rank without a GPU: it adds what it receives to its start value, and fails at 13. */
import { parentPort, workerData } from "node:worker_threads";
import { followSteps } from "./follow.ts";
import type { FromRank, RankThreadData } from "./worker-messages.ts";
import { workerPort } from "./worker-port.ts";

const { task, signal } = workerData as RankThreadData;
if (parentPort === null) throw new Error("a rank runs on a thread of its own");
const messages = parentPort;
const port = workerPort(messages, signal);

async function serve(): Promise<void> {
  if (task.options.modelDir === "missing") throw new Error("the model is not there");
  port.opened();
  const [id = new Uint8Array()] = await port.ids();
  port.ready(id[0] ?? 0);
  let sum = 0;
  const take = async (tokenIds: Int32Array): Promise<void> => {
    for (const id of tokenIds) sum += id;
    if (tokenIds.includes(13)) throw new Error("a token that brings bad luck");
    messages.postMessage({ kind: "sum", sum });
  };
  await followSteps(
    {
      stepsAhead: true,
      run: async ({ tokenIds }) => {
        await take(tokenIds);
        return new Float32Array();
      },
      choose: async ({ tokenIds }) => {
        await take(tokenIds);
        return { tokens: new Int32Array(), logProbs: new Float32Array(), logits: new Float32Array() };
      },
    },
    port,
  );
}

serve().catch((error: unknown) => {
  const failed: FromRank = { kind: "failed", message: error instanceof Error ? error.message : String(error) };
  messages.postMessage(failed);
});
