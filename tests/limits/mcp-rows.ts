/** Limits of calls of tools. */
import { packBytesElements } from "@nereid/wire";
import type { HttpCall } from "../../server/src/protocol/http/http-call.ts";
import { createMcpApi } from "../../server/src/protocol/mcp/mcp-api.ts";
import { readTensor } from "../../server/src/protocol/mcp/read-tensor.ts";
import { TensorWriter } from "../../server/src/protocol/mcp/write-tensor.ts";
import { type LimitRow, Refused } from "./limit-row.ts";

const LENGTH_BYTES = 4;
const times = <T>(count: number, value: T): readonly T[] => new Array<T>(count).fill(value);

/** A body of so many bytes, which are never made. */
async function send(size: number): Promise<void> {
  const endpoint = { answer: async () => new Response(null, { status: 202 }), close: async () => undefined };
  const { api } = createMcpApi({
    server: { name: "", version: "" },
    models: undefined,
    module: { createMcpEndpoint: () => endpoint },
    origins: [],
    restricted: [],
    maxBodyBytes: Number.MAX_SAFE_INTEGER,
    log: undefined,
  } as never);
  const call = {
    method: "POST",
    path: "/mcp",
    rawHeaders: [],
    signal: new AbortController().signal,
    header: () => undefined,
    body: async () => ({ bytes: Buffer.from("{}"), size }),
  } as unknown as HttpCall;
  const reply = await api.handle(call);
  if (reply.status !== 202 && "body" in reply) throw new Refused(String(reply.status), String(reply.body[0]));
}

function writeFlags(count: number): void {
  const tensor = { name: "y", datatype: "BOOL", shape: [count], data: new Uint8Array(count) } as const;
  new TensorWriter().write(tensor);
}

function writeText(numBytes: number): void {
  const data = packBytesElements(["x".repeat(numBytes - LENGTH_BYTES)]);
  new TensorWriter().write({ name: "y", datatype: "BYTES", shape: [1], data });
}

const flags = { name: "x", datatype: "BOOL", shape: [-1] } as const;

export const MCP_ROWS: readonly LimitRow[] = [
  { name: "MAX_MCP_BODY_BYTES", value: 4_194_304, run: send, status: "413", says: "both" },
  {
    name: "MAX_MCP_ELEMENTS",
    value: 16_384,
    run: (count) => readTensor(flags, times(count, true)),
    status: "invalid_argument",
    says: "limit",
  },
  { name: "MAX_MCP_ELEMENTS", value: 16_384, run: writeFlags, status: "invalid_argument", says: "limit" },
  { name: "MAX_MCP_TEXT_BYTES", value: 1_048_576, run: writeText, status: "invalid_argument", says: "limit" },
];
