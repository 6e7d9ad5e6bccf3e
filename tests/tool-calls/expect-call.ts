/** One call as a client got it, against the tools that it offered. */
import assert from "node:assert/strict";
import type { ChatTool, ToolChoice } from "@nereid/server/chat/chat-contract";
import { faultOf } from "./check-value.ts";

export interface MadeCall {
  readonly name: string;
  json: string;
}

/** @throws AssertionError that begins with `where` */
export function expectValidCall(call: MadeCall, tools: readonly ChatTool[], choice: ToolChoice, where: string): void {
  const tool = tools.find(({ function: { name } }) => name === call.name);
  assert.ok(tool !== undefined, `${where}: no tool '${call.name}'`);
  if (typeof choice === "object") assert.equal(call.name, choice.name, where);
  let value: unknown;
  assert.doesNotThrow(
    () => {
      value = JSON.parse(call.json);
    },
    `${where}: ${JSON.stringify(call.json)}`,
  );
  const schema = tool.function.parameters ?? {};
  assert.equal(faultOf(value, schema), undefined, `${where}: ${call.json} for ${JSON.stringify(schema)}`);
}
