import assert from "node:assert/strict";
import { test } from "node:test";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "@nereid/server/observe/log";
import { TransferLog } from "./transfer-log.ts";

test("TransferLog tells the start, the progress every ten seconds and the end", () => {
  const lines: string[] = [];
  const sink = { out: (line: string) => void lines.push(line), err: () => undefined };
  let nowMs = 0;
  const progress = new TransferLog(
    new ServerLog(DEFAULT_LOG_SETTINGS, { sink }),
    "'s3://b/m'",
    3,
    20 << 20,
    () => nowMs,
  );
  for (nowMs = 1000; nowMs <= 20_000; nowMs += 1000) progress.add(1 << 20);
  progress.end();
  assert.deepEqual(
    lines.map((line) => line.slice(line.indexOf("] ") + 2).trim()),
    [
      "\"fetching 's3://b/m': 3 files, 20.0 MiB\"",
      "\"fetching 's3://b/m': 10.0 MiB of 20.0 MiB (50 %), 1.0 MiB/s\"",
      "\"fetching 's3://b/m': 20.0 MiB of 20.0 MiB (100 %), 1.0 MiB/s\"",
      "\"fetched 's3://b/m' in 21s\"",
    ],
  );
});
