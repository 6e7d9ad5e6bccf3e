/** `identity`: OUTPUT<n> is INPUT<n>, for any datatype and shape. */
import type { Tensor } from "../../core/tensor.ts";
import type { Backend } from "../backend.ts";
import { createSampleBackend } from "./sample-backend.ts";

export function createIdentityBackend(): Backend {
  return createSampleBackend("identity", (source) => {
    const outputs = source.config.output.map(({ name }) => name);
    return {
      execute(request) {
        const { inputs } = request.request;
        const echoed = outputs.flatMap((name): Tensor[] => {
          const input = inputs.find((candidate) => candidate.name === inputOf(name)) ?? soleInput(inputs, outputs);
          return input === undefined ? [] : [{ ...input, name }];
        });
        request.respond({ outputs: echoed, final: true });
      },
    };
  });
}

/** OUTPUT0 -> INPUT0; OUT -> IN. */
function inputOf(output: string): string {
  return output.replace(/^OUT(PUT)?/, (_, put: string | undefined) => `IN${put ?? ""}`);
}

function soleInput(inputs: readonly Tensor[], outputs: readonly string[]): Tensor | undefined {
  return inputs.length === 1 && outputs.length === 1 ? inputs[0] : undefined;
}
