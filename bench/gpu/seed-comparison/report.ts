/** The rows of a comparison as a table in Markdown. */
import type { Row, Spread } from "./results.ts";

export const SYSTEM_NAMES: Readonly<Record<string, string>> = {
  nereid: "Nereid's engine",
  batched: "transformers, batches",
  streamed: "transformers, batches, token by token",
  "one-by-one": "transformers, one by one",
};

const HEAD = `| served by | clients | requests/s | tokens/s | whole answer, p50 / p99 | first token, p50 / p99 |
|---|---|---|---|---|---|`;

export function tableOf(rows: readonly Row[]): string {
  const lines = rows.map(({ system, clients, requestsPerSecond, tokensPerSecond, latencyMs, firstTokenMs }) => {
    const cells = [
      SYSTEM_NAMES[system] ?? system,
      clients,
      digits(requestsPerSecond, 3),
      Math.round(tokensPerSecond).toLocaleString("en-US"),
      spread(latencyMs),
      firstTokenMs === null ? "with the whole answer" : spread(firstTokenMs),
    ];
    return `| ${cells.join(" | ")} |`;
  });
  return [HEAD, ...lines].join("\n");
}

function spread({ p50, p99 }: Spread): string {
  return `${duration(p50)} / ${duration(p99)}`;
}

function duration(ms: number): string {
  return ms >= 1000 ? `${digits(ms / 1000, 3)} s` : `${digits(ms, 3)} ms`;
}

/** At least so many that count, never as a power. */
function digits(value: number, count: number): string {
  const decimals = Math.max(0, count - Math.max(1, Math.floor(Math.log10(value)) + 1));
  return value.toFixed(decimals);
}
