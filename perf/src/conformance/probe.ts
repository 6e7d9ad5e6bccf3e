/** Probes of a conformance run, and their results. A probe is a name, the paragraph that it checks, and a function. */

export interface ProbeResult {
  readonly group: string;
  readonly name: string;
  /** Specification and paragraph, or the recorded set. */
  readonly source: string;
  readonly outcome: "passed" | "failed" | "skipped";
  /** Why it failed or was skipped. */
  readonly detail: string;
}

export interface Probe {
  readonly group: string;
  readonly name: string;
  readonly source: string;
  /** Throws `Failure` with what was expected and what came, or `Skip`. */
  run(): Promise<void>;
}

export class Failure extends Error {}
/** The server does not have what the probe needs. */
export class Skip extends Error {}

export function expectEqual(at: string, actual: unknown, expected: unknown): void {
  const [got, wanted] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (got !== wanted) throw new Failure(`${at}: expected ${wanted}, got ${got?.slice(0, 300)}`);
}

export function expectThat(isTrue: boolean, message: string): void {
  if (!isTrue) throw new Failure(message);
}

/** One after the other: an error must not disturb the next. */
export async function runProbes(
  probes: readonly Probe[],
  signal: AbortSignal,
  onResult: (result: ProbeResult) => void,
): Promise<void> {
  for (const { group, name, source, run } of probes) {
    signal.throwIfAborted();
    const base = { group, name, source };
    try {
      await run();
      onResult({ ...base, outcome: "passed", detail: "" });
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      onResult({ ...base, outcome: error instanceof Skip ? "skipped" : "failed", detail });
    }
  }
}
