/** Fetches files one after the other, with one progress bar for all of them. */
import { formatDuration } from "@nereid/server/files/progress-text";
import type { HubConnection } from "@nereid/server/hub/http";
import { type TransferredFile, transferFile } from "@nereid/server/hub/transfer";
import type { ResolveContext } from "./resolved-model.ts";

const FIRST_PAUSE_MS = 500;

export interface Transfer {
  readonly file: TransferredFile;
  readonly url: string;
  readonly partial: string;
  readonly target: string;
}

/** @throws ToolError */
export async function transferWithProgress(
  transfers: readonly Transfer[],
  connection: HubConnection,
  { reporter }: ResolveContext,
): Promise<void> {
  const total = transfers.reduce((sum, { file }) => sum + file.bytes, 0);
  const task = reporter.startTask({ task: "download", unit: "bytes", total });
  try {
    for (const transfer of transfers) {
      await transferFile({
        ...transfer,
        connection,
        firstPauseMs: FIRST_PAUSE_MS,
        onBytes: (bytes) => task.add(bytes, transfer.file.path),
        onKept: (bytes) => task.skip(bytes),
        onRetry: (reason, pauseMs) => reporter.warn(`${reason}; trying again in ${formatDuration(pauseMs / 1000)}`),
      });
    }
  } finally {
    task.end();
  }
}
