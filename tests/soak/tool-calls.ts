/**
 * Calls of tools in every format, with random schemas, from a model that knows nothing. Each round takes the next format,
 * so that a run can stop after any of them.
 */
import assert from "node:assert/strict";
import { TOOL_ROWS } from "@nereid/server/chat/tools/tool-rows";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createFormatModels, modelOf } from "../tool-calls/format-models.ts";
import { addCounts, runServedCalls, type ServedCounts } from "../tool-calls/served-calls.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const PER_ROUND = 192;

export const toolCallsSoak: Soak = { name: "tool-calls", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  await using models = await createFormatModels();
  const server = await startServerProcess({ repositories: [models.path], flags: ["--model-control-mode=explicit"] });
  try {
    const result = await rounds(server, seed, deadlineMs);
    await server.stop();
    return result;
  } finally {
    await server.kill();
  }
}

async function rounds(server: ServerProcess, seed: number, deadlineMs: number): Promise<SoakResult> {
  let sum: ServedCounts | undefined;
  const formats = new Set<string>();
  for (let round = 0; performance.now() < deadlineMs; round += 1) {
    const format = TOOL_ROWS[round % TOOL_ROWS.length]?.name ?? "";
    const model = modelOf(format);
    await manage(server, model, "load");
    const counts = await runServedCalls(server, { model, format, seed: seed + round, numAnswers: PER_ROUND });
    await manage(server, model, "unload");
    sum = sum === undefined ? counts : addCounts(sum, counts);
    formats.add(format);
  }
  assert.ok(sum !== undefined);
  return { ...sum, schemas: new Set(sum.schemas).size, formats: formats.size };
}

async function manage(server: ServerProcess, model: string, action: "load" | "unload"): Promise<void> {
  const response = await fetch(`${server.baseUrl}/v1/models/${model}/${action}`, { method: "POST" });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${action} of ${model}: ${text}`);
}
