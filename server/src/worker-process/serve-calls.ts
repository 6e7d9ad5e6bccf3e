/** The worker side of a worker process: prepares once, then answers concurrent calls. */
import process from "node:process";
import { describeThrown, ServerError } from "../core/server-error.ts";
import type { WorkerCall, WorkerReply } from "./messages.ts";

export type CallHandler = (body: unknown) => Promise<unknown>;

/** `prepare` receives the owner's start data. The process ends when its owner does. */
export async function serveWorkerCalls(prepare: (data: unknown) => Promise<CallHandler>): Promise<void> {
  // The owner handles signals to the process group: it ends this process when it is done.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);
  process.on("disconnect", () => process.exit(0));
  try {
    const answer = await prepare(JSON.parse(process.argv[2] ?? "null"));
    process.on("message", ({ id, body }: WorkerCall) => {
      answer(body).then(
        (result) => tell({ kind: "result", id, body: result }),
        (error: unknown) => tell(failureOf(id, error)),
      );
    });
    tell({ kind: "ready" });
  } catch (error) {
    const { code, message } = error instanceof ServerError ? error : new ServerError("internal", describeThrown(error));
    tell({ kind: "unusable", code, problem: message });
  }
}

function failureOf(id: number, error: unknown): WorkerReply {
  if (error instanceof ServerError) return { kind: "refused", id, code: error.code, problem: error.message };
  return { kind: "fault", id, fault: describeThrown(error) };
}

function tell(answer: WorkerReply): void {
  if (process.connected) process.send?.(answer);
}
