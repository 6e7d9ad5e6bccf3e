/**
 * `query`: where the outputs of a request would be. With TEST_FAIL_WITH_QUERY_RESULT the answer is an error that says it, else
 * two outputs of UINT8. Here they are always in the memory of the CPU. Source: src/test/query_backend of Triton's server.
 */
import process from "node:process";
import { ServerError } from "../../core/server-error.ts";
import type { Backend } from "../backend.ts";
import { createTestBackend } from "./test-backend.ts";

const OUTPUTS = ["OUTPUT0", "OUTPUT1"];
const DEFAULT_BYTES = 2;

export function createQueryBackend(variables: Readonly<Record<string, string | undefined>> = process.env): Backend {
  return createTestBackend("query", () => {
    const [fails, anonymous, size] = ["TEST_FAIL_WITH_QUERY_RESULT", "TEST_ANONYMOUS", "TEST_BYTE_SIZE"].map(
      (name) => variables[name],
    );
    const asked = anonymous === undefined ? OUTPUTS : ["NULL"];
    const told = asked.map((name) => `${name} CPU 0; `).join("");
    const total = size === undefined ? DEFAULT_BYTES : Number(size);
    const bytes = size !== undefined && anonymous !== undefined ? Math.trunc(total / 2) : total;
    return {
      execute(request) {
        if (fails !== undefined) {
          request.fail(new ServerError("unknown", told));
          return;
        }
        const data = new Uint8Array(bytes);
        const outputs = OUTPUTS.map((name) => ({ name, datatype: "UINT8", shape: [bytes], data }) as const);
        request.respond({ outputs, final: true });
      },
    };
  });
}
