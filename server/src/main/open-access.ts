/** API keys of a running server: their file, their ledger, their metrics. Part of the composition root. */
import { watchKeyFile } from "../access/key-file.ts";
import { KeyGate } from "../access/key-gate.ts";
import { UsageLedger, usedTokens } from "../access/usage-ledger.ts";
import { UsageMetrics } from "../access/usage-metrics.ts";
import type { OpenAiOptions } from "../config/flags/server-options.ts";
import type { Logger } from "../observe/log.ts";
import type { MetricRegistry } from "../observe/metrics.ts";

export interface OpenAccess {
  readonly keys: KeyGate;
  /** Resolves when the ledger is written. */
  close(): Promise<void>;
}

/** Undefined: calls need no key. @throws ServerError for a file of keys that cannot be read */
export async function openAccess(
  { apiKeyFile, usageLedger }: OpenAiOptions,
  metrics: MetricRegistry,
  log: Logger,
): Promise<OpenAccess | undefined> {
  if (apiKeyFile === undefined) return undefined;
  const counts = new UsageMetrics();
  const used = usageLedger === undefined ? undefined : await usedTokens(usageLedger);
  const ledger = usageLedger === undefined ? undefined : new UsageLedger(usageLedger, log);
  const keys = new KeyGate({
    ...(used === undefined ? {} : { usedTokens: used }),
    onFinish: (use) => {
      counts.add(use);
      ledger?.append(use);
    },
  });
  const watch = watchKeyFile(apiKeyFile, log, (records) => keys.update(records));
  for (const family of counts.families(keys)) metrics.register(family);
  return {
    keys,
    close: async () => {
      watch[Symbol.dispose]();
      await ledger?.close();
    },
  };
}
