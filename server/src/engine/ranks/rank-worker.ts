/** The program of a thread that drives one GPU of several. It sleeps until its leader sends a step. */
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { follow, type LeaderPort } from "./follow.ts";
import type { GroupIds } from "./rank-group.ts";
import type { FromRank, RankThreadData, ToRank } from "./worker-messages.ts";

const { task, signal } = workerData as RankThreadData;
const counter = new Int32Array(signal);
/** Looks that are taken before the thread sleeps: the next step often comes soon. */
const MAX_SLEEP_MS = 1000;

function send(message: FromRank): void {
  parentPort?.postMessage(message);
}

function receive(): ToRank | undefined {
  if (parentPort === null) throw new Error("a rank runs on a thread of its own");
  return (receiveMessageOnPort(parentPort) as { readonly message: ToRank } | undefined)?.message;
}

async function nextMessage(isIdle: boolean): Promise<ToRank> {
  for (;;) {
    const seen = Atomics.load(counter, 0);
    const message = receive();
    if (message !== undefined) return message;
    // What is under way on the device is looked at by the event loop.
    if (isIdle) Atomics.wait(counter, 0, seen, MAX_SLEEP_MS);
    else await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

const port: LeaderPort = {
  opened: () => send({ kind: "opened" }),
  ids: async (): Promise<GroupIds> => {
    const message = await nextMessage(true);
    if (message instanceof Int32Array || message.kind !== "join") throw new Error("the group was not formed");
    return message.ids;
  },
  ready: (numBlocks) => send({ kind: "ready", numBlocks }),
  next: async (isIdle) => {
    const message = await nextMessage(isIdle);
    return message instanceof Int32Array ? message : undefined;
  },
};

// A message for which nobody waits must not keep a thread that has failed.
follow(task, port).catch((error: unknown) => {
  send({ kind: "failed", message: error instanceof Error ? error.message : String(error) });
});
