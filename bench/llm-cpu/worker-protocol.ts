/** Requests of the bench to each contestant, in a process of its own; answers are milliseconds of the work. */
import type { WeightFormat } from "./random-gguf.ts";

export type Job =
  /** One sequence, logits of the last token only. */
  | { readonly kind: "prefill"; readonly numTokens: number }
  /** `batch` sequences of `context` tokens each; `numSteps` steps of one token each, logits of each. */
  | { readonly kind: "decode"; readonly batch: number; readonly context: number; readonly numSteps: number }
  | ({ readonly kind: "generate" } & Generation);

/** `clients` sequences at once, each of a prompt of its own and `newTokens` greedy tokens. */
export interface Generation {
  readonly clients: number;
  readonly promptTokens: number;
  readonly newTokens: number;
}

export interface Setup {
  readonly modelPath: string;
  readonly format: WeightFormat;
  readonly numThreads: number;
  readonly maxBatch: number;
  /** Tokens a sequence may have. */
  readonly maxContext: number;
}

/** Milliseconds of each piece timed: prefill one, decode one a step. */
export type Runner = (job: Job) => Promise<readonly number[]>;

/** Serves jobs to the parent process until it leaves. */
export function serveJobs(open: (setup: Setup) => Promise<Runner>): void {
  let runner: Promise<Runner> | undefined;
  process.on("message", (message: Setup | Job) => {
    const answer = async (): Promise<readonly number[]> => {
      if ("kind" in message) return (await (runner ?? Promise.reject(new Error("not set up"))))(message);
      runner = open(message);
      await runner;
      return [];
    };
    answer().then(
      (times) => process.send?.({ times }),
      (error: unknown) => process.send?.({ error: String(error) }),
    );
  });
  process.on("disconnect", () => process.exit(0));
}

/** Token ids that any vocabulary of the bench has; other ones for another `turn`. */
export function someTokens(count: number, turn = 0): number[] {
  return Array.from({ length: count }, (_, i) => 300 + ((i * 37 + turn * 101) % 5000));
}
