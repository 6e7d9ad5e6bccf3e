/** The leader as seen by the thread of a rank: messages, for which the thread sleeps while it has no work in flight. */
import { type MessagePort, receiveMessageOnPort } from "node:worker_threads";
import type { LeaderPort } from "./follow.ts";
import type { GroupIds } from "./rank-group.ts";
import type { FromRank, ToRank } from "./worker-messages.ts";

const MAX_SLEEP_MS = 1000;

/** `signal`: i32 [1], counts messages. */
export function workerPort(messages: MessagePort, signal: SharedArrayBuffer): LeaderPort {
  const counter = new Int32Array(signal);
  const send = (message: FromRank): void => messages.postMessage(message);

  async function nextMessage(isIdle: boolean): Promise<ToRank> {
    for (;;) {
      const seen = Atomics.load(counter, 0);
      const received = receiveMessageOnPort(messages) as { readonly message: ToRank } | undefined;
      if (received !== undefined) return received.message;
      // The event loop watches the work in flight on the device.
      if (isIdle) Atomics.wait(counter, 0, seen, MAX_SLEEP_MS);
      else await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  return {
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
}
