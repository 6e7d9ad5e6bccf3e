/** Every number that a request controls: taken at its limit, refused one past it, by the decoder that enforces it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as limits from "../../server/src/core/limits.ts";
import * as http2Limits from "../../server/src/protocol/http2/limits.ts";
import * as wireLimits from "../../wire/src/limits.ts";
import { CONNECTION_ROWS } from "./connection-rows.ts";
import { GRPC_ROWS } from "./grpc-rows.ts";
import { HTTP_ROWS } from "./http-rows.ts";
import { IMAGE_ROWS } from "./image-rows.ts";
import { type LimitRow, type Refusal, refusalOf } from "./limit-row.ts";
import { MCP_ROWS } from "./mcp-rows.ts";
import { OPENAI_ROWS } from "./openai-rows.ts";
import { REQUEST_ROWS } from "./request-rows.ts";

const ROWS: readonly LimitRow[] = [
  ...HTTP_ROWS,
  ...GRPC_ROWS,
  ...REQUEST_ROWS,
  ...OPENAI_ROWS,
  ...MCP_ROWS,
  ...IMAGE_ROWS,
  ...CONNECTION_ROWS,
];
const CONSTANTS: ReadonlyMap<string, number> = new Map(Object.entries({ ...limits, ...http2Limits, ...wireLimits }));

test("every limit has a row, with its value", () => {
  const values = new Map(ROWS.map(({ name, value }) => [name, value]));
  assert.deepEqual([...CONSTANTS].sort(), [...values].sort());
});

test("no two of the three tables have a limit of the same name", () => {
  const names = [limits, http2Limits, wireLimits].flatMap((table) => Object.keys(table));
  assert.deepEqual(names.length, CONSTANTS.size);
});

/** Outcome of a run past the limit. A run that only cuts says how much it kept. */
async function refusal({ run, value, step = 1 }: LimitRow): Promise<Refusal> {
  try {
    const kept = await run(value + step);
    return kept === value ? { status: "left out", text: "" } : { status: "taken", text: "" };
  } catch (error) {
    return refusalOf(error);
  }
}

function expectText({ says, value, step = 1 }: LimitRow, text: string): void {
  if (says instanceof RegExp) {
    assert.match(text, says);
    return;
  }
  const numbers = says === "both" ? [value, value + step] : [value];
  const found = (text.match(/\d+/g) ?? []).map(Number);
  assert.deepEqual(
    numbers.filter((number) => !found.includes(number)),
    [],
    `missing in: ${text}`,
  );
}

for (const [index, row] of ROWS.entries()) {
  test(`${row.name} (row ${index}) is taken at ${row.value} and refused one past it`, async () => {
    const kept = await row.run(row.value);
    if (typeof kept === "number") assert.equal(kept, row.value);
    const { status, text } = await refusal(row);
    assert.equal(status, row.status, text);
    expectText(row, text);
  });
}
