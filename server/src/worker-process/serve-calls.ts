/** The other end of a worker process: prepares itself once, then answers calls, as many at a time as come. */
import process from "node:process";
import { describeThrown, ServerError } from "../core/server-error.ts";
import type { WorkerCall, WorkerReply } from "./messages.ts";

export type CallHandler = (body: unknown) => Promise<unknown>;

/** `prepare` gets what its owner gave at the start. The process ends when its owner does. */
export async function serveWorkerCalls(prepare: (data: unknown) => Promise<CallHandler>): Promise<void> {
  // Signals to the process group are the owner's to answer: it ends this process when it is done.
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
