/**
 * The ledger of use: one JSON object a line and request, appended. Read at the start, so that budgets hold over restarts.
 * Lines are written in the order of their ends; a process that dies loses at most the lines of its last turn.
 */
import { createReadStream, createWriteStream, type WriteStream } from "node:fs";
import { createInterface } from "node:readline";
import type { Logger } from "../observe/log.ts";
import type { FinishedUse } from "./key-gate.ts";

export class UsageLedger {
  readonly #stream: WriteStream;
  #isBroken = false;

  constructor(path: string, log: Logger) {
    this.#stream = createWriteStream(path, { flags: "a", mode: 0o600 });
    this.#stream.on("error", (error) => {
      if (!this.#isBroken) log.error("access", `the usage ledger ${path} is not written: ${error.message}`);
      this.#isBroken = true;
    });
  }

  append(use: FinishedUse): void {
    if (!this.#isBroken) this.#stream.write(`${ledgerLine(use, new Date())}\n`);
  }

  /** Resolves when all lines are in the file. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#isBroken) resolve();
      else this.#stream.once("error", () => resolve()).end(() => resolve());
    });
  }
}

export function ledgerLine(use: FinishedUse, end: Date): string {
  return JSON.stringify({
    time: end.toISOString(),
    key: use.key,
    model: use.model,
    route: use.route,
    status: use.status,
    prompt_tokens: use.promptTokens,
    cached_tokens: use.cachedTokens,
    completion_tokens: use.completionTokens,
    duration_ms: Number(use.durationMs.toFixed(1)),
  });
}

/** Tokens by name of the key; an absent file has none. Lines that are cut short, as a crash leaves them, are passed over. */
export async function usedTokens(path: string): Promise<ReadonlyMap<string, number>> {
  const used = new Map<string, number>();
  try {
    for await (const line of createInterface({ input: createReadStream(path, "utf8"), crlfDelay: Infinity })) {
      addLine(used, line);
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  return used;
}

function addLine(used: Map<string, number>, line: string): void {
  const entry = parseLine(line);
  if (entry === undefined) return;
  const { key, prompt_tokens: prompt, completion_tokens: completion } = entry;
  if (typeof key !== "string" || typeof prompt !== "number" || typeof completion !== "number") return;
  used.set(key, (used.get(key) ?? 0) + prompt + completion);
}

function parseLine(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}
