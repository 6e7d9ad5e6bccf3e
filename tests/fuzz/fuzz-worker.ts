/**
 * One target in a process of its own: `fuzz-worker.ts NAME SEED FIRST`, until it is ended. Reports a few times a second; the parent
 * knows that it hangs when no report comes, and that it died by its end.
 */
import { readdirSync } from "node:fs";
import process from "node:process";
import type { FuzzMessage } from "./fuzz-messages.ts";
import { runCases } from "./run-cases.ts";
import { fuzzTarget } from "./targets.ts";

const BATCH = 50;
const REPORT_MS = 1000;
/** A collection of the whole heap takes some milliseconds. */
const collect = (globalThis as { gc?: () => void }).gc ?? ((): void => undefined);

const [name = "", seedText = "0", firstText = "0"] = process.argv.slice(2);
const seed = Number(seedText);
process.on("unhandledRejection", (error) => endWith(`unhandled rejection: ${String(error)}`));
// The library of tokenizers prints what it does not know.
console.warn = (): void => undefined;
await run();

async function run(): Promise<void> {
  const target = fuzzTarget(name);
  let [refused, slowestMs] = [0, 0];
  let lastMs = performance.now();
  for (let first = Number(firstText); ; first += BATCH) {
    const result = await runCases(target, { seed, first, count: BATCH }, true).catch((error: unknown) =>
      endWith(error instanceof Error ? error.message : String(error)),
    );
    if (result === undefined) return;
    refused += result.refused;
    slowestMs = Math.max(slowestMs, result.slowestMs);
    if (performance.now() - lastMs < REPORT_MS) continue;
    lastMs = performance.now();
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    const { heapUsed, external, arrayBuffers } = process.memoryUsage();
    const descriptors = readdirSync("/proc/self/fd").length;
    const memory = { heapBytes: heapUsed, externalBytes: Math.max(external, arrayBuffers) };
    send({ kind: "progress", cases: first + BATCH, refused, slowestMs, ...memory, descriptors });
  }
}

function send(message: FuzzMessage): void {
  process.send?.(message);
}

function endWith(text: string): undefined {
  process.send?.({ kind: "fault", text } satisfies FuzzMessage, undefined, undefined, () => process.exit(1));
}
