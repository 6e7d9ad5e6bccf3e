/** When the figures are those of the load generator and not of the server. Pure. */
import type { GeneratorLimits } from "../run/load-generator.ts";

/** Threads that are busy so long have no time left to see an answer when it comes. */
const MAX_BUSY_SHARE = 0.9;
/** Share of the requests that the schedule asked for. */
const MAX_DROPPED_SHARE = 0.001;
const MAX_LATE_MS = 50;

export function generatorWarnings(
  { busyShare, maxLateMs, numDropped, numSent }: GeneratorLimits,
  at: string,
): string[] {
  const warnings: string[] = [];
  if (busyShare > MAX_BUSY_SHARE) {
    const percent = Math.round(busyShare * 100);
    warnings.push(
      `${at}: the load generator is the limit: its threads were busy ${percent} % of the time; raise --max-threads, or use more machines`,
    );
  }
  if (numDropped > MAX_DROPPED_SHARE * (numSent + numDropped)) {
    warnings.push(`${at}: ${numDropped} of ${numSent + numDropped} requests were not sent: too many are under way`);
  }
  if (maxLateMs > MAX_LATE_MS) {
    warnings.push(
      `${at}: a request was sent ${Math.round(maxLateMs)} ms after its time; the machine of the generator is busy`,
    );
  }
  return warnings;
}
