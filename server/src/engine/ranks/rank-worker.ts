/** The program of a thread that drives one GPU of several. It sleeps until its leader sends a step. */
import { parentPort, workerData } from "node:worker_threads";
import { follow } from "./follow.ts";
import type { FromRank, RankThreadData } from "./worker-messages.ts";
import { workerPort } from "./worker-port.ts";

const { task, signal } = workerData as RankThreadData;
if (parentPort === null) throw new Error("a rank runs on a thread of its own");
const messages = parentPort;

follow(task, workerPort(messages, signal)).catch((error: unknown) => {
  const failed: FromRank = { kind: "failed", message: error instanceof Error ? error.message : String(error) };
  messages.postMessage(failed);
});
