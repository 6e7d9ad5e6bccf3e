/** One answer of each tool format; `npm run soak -- tool-calls` runs as many as one likes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { TOOL_ROWS } from "@nereid/server/chat/tools/tool-rows";
import { EXAMPLES, SIMPLE_AND_PIPELINE } from "../support/model-repository.ts";
import { startServerProcess } from "../support/server-process.ts";
import { runRandomCalls } from "./random-calls.ts";

test("calls of every format follow random schemas, from a model that knows nothing", { timeout: 600_000 }, async () => {
  const server = await startServerProcess({ repositories: [EXAMPLES], flags: SIMPLE_AND_PIPELINE });
  try {
    const numAnswers = TOOL_ROWS.length;
    const { answers, calls, cut } = await runRandomCalls(server, 1, numAnswers);
    assert.equal(answers, numAnswers);
    assert.ok(calls >= numAnswers / 2, `${calls} calls, ${cut} answers cut`);
  } finally {
    await server.stop();
  }
});
