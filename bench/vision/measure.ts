/** Clients that ask again and again for a while, and how long they waited. Knows no server. */

export interface Measured {
  readonly count: number;
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** Texts of failures, and how often each came. */
  readonly failures: ReadonlyMap<string, number>;
}

export async function measure(
  clients: number,
  durationMs: number,
  ask: (i: number) => Promise<unknown>,
): Promise<Measured> {
  const waitsMs: number[] = [];
  const failures = new Map<string, number>();
  const startMs = performance.now();
  let next = 0;
  const client = async (): Promise<void> => {
    while (performance.now() - startMs < durationMs) {
      const fromMs = performance.now();
      try {
        await ask(next++);
        waitsMs.push(performance.now() - fromMs);
      } catch (error) {
        const text = error instanceof Error ? error.message : String(error);
        failures.set(text, (failures.get(text) ?? 0) + 1);
      }
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  const seconds = (performance.now() - startMs) / 1000;
  waitsMs.sort((a, b) => a - b);
  const at = (part: number): number =>
    waitsMs[Math.min(waitsMs.length - 1, Math.floor(part * waitsMs.length))] ?? Number.NaN;
  return { count: waitsMs.length, perSecond: waitsMs.length / seconds, p50: at(0.5), p99: at(0.99), failures };
}
