/** `identity`: OUTPUT<n> is INPUT<n>, for any datatype and shape. */
import type { Tensor } from "../../core/tensor.ts";
import type { Backend } from "../backend.ts";
import { createTestBackend } from "./test-backend.ts";

export function createIdentityBackend(): Backend {
  return createTestBackend("identity", (source) => {
    const outputs = source.config.output.map(({ name }) => ({ name, from: inputOf(name) }));
    return {
      execute(request) {
        const { inputs } = request.request;
        const echoed: Tensor[] = [];
        for (const { name, from } of outputs) {
          const input = inputs.find((candidate) => candidate.name === from) ?? soleInput(inputs, outputs);
          if (input === undefined) continue;
          const { datatype, shape, data } = input;
          echoed.push({ name, datatype, shape, data });
        }
        request.respond({ outputs: echoed, final: true });
      },
    };
  });
}

/** OUTPUT0 -> INPUT0; OUT -> IN. */
function inputOf(output: string): string {
  return output.replace(/^OUT(PUT)?/, (_, put: string | undefined) => `IN${put ?? ""}`);
}

function soleInput(inputs: readonly Tensor[], outputs: readonly unknown[]): Tensor | undefined {
  return inputs.length === 1 && outputs.length === 1 ? inputs[0] : undefined;
}
