/**
 * `distributed_addsub`: OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1, in INT32. A passive instance would do the
 * subtraction in Triton; here a passive group makes no instance, and the model must have one. Source: src/test/distributed_addsub.
 */
import { invalidArgument } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Backend, BackendRequest, ModelSource } from "../backend.ts";
import { tensorOf, viewOf } from "./control-values.ts";
import { createTestBackend } from "./test-backend.ts";

const ELEMENT_BYTES = 4;

export function createDistributedAddsubBackend(): Backend {
  return createTestBackend("distributed_addsub", (source) => {
    expectPassiveGroup(source);
    return {
      execute(request) {
        const outputs = [combined(request, "OUTPUT0", (a, b) => a + b), combined(request, "OUTPUT1", (a, b) => a - b)];
        request.respond({ outputs, final: true });
      },
    };
  });
}

function expectPassiveGroup({ name, config }: ModelSource): void {
  if (config.instance_group.some(({ passive }) => passive)) return;
  throw invalidArgument(`model '${name}' of backend 'distributed_addsub' needs an instance group with passive: true`);
}

/** In 32 bits, as in C. */
function combined(request: BackendRequest, name: string, combine: (a: number, b: number) => number): Tensor {
  const [left, right] = [tensorOf(request, "INPUT0"), tensorOf(request, "INPUT1")];
  const [a, b] = [viewOf(left), viewOf(right)];
  const data = new Uint8Array(left.data.byteLength);
  const sum = new DataView(data.buffer);
  for (let at = 0; at + ELEMENT_BYTES <= data.length; at += ELEMENT_BYTES) {
    sum.setInt32(at, combine(a.getInt32(at, true), b.getInt32(at, true)), true);
  }
  return { name, datatype: "INT32", shape: left.shape, data };
}
