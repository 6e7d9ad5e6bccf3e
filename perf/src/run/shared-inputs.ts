/** Inputs and outputs of a load in POSIX shared memory (Triton's system shared memory extension). Linux: files of /dev/shm. */
import { rmSync, writeFileSync } from "node:fs";
import process from "node:process";
import { ToolError } from "@nereid/server/files/tool-error";
import { elementSize } from "@nereid/wire";
import type { InferSpec, InferTensor, RequestedOutput } from "../input/infer-encoding.ts";
import type { ModelFacts, ServerApi, TensorFacts } from "../target/server-api.ts";

export interface SharedTensors {
  readonly inputs: readonly (readonly InferTensor[])[];
  readonly outputs: readonly RequestedOutput[];
  /** Unregisters the region and removes it. */
  release(): Promise<void>;
}

const FOLDER = "/dev/shm";

/**
 * One region holds all inputs, then the outputs, which all requests share: nobody reads them. Outputs of unknown size get
 * `outputBytes`.
 */
export async function shareTensors(
  api: ServerApi,
  facts: ModelFacts,
  inputs: InferSpec["inputs"][],
  batchSize: number,
  outputBytes: number,
): Promise<SharedTensors> {
  const name = `nereid_bench_${process.pid}`;
  const path = `${FOLDER}/${name}`;
  let offset = 0;
  const take = (byteSize: number): { name: string; offset: number; byteSize: number } => {
    const region = { name, offset, byteSize };
    offset += byteSize;
    return region;
  };
  const shared = inputs.map((list) => list.map((tensor) => ({ ...tensor, region: take(tensor.data.length) })));
  const content = Buffer.concat(inputs.flat().map(({ data }) => data));
  const outputs = facts.outputs.map((output) => ({
    name: output.name,
    region: take(sizeOf(output, facts, batchSize) ?? outputBytes),
  }));
  const release = async (): Promise<void> => {
    rmSync(path, { force: true });
    await api.unregisterMemory(name);
  };
  try {
    writeFileSync(path, Buffer.concat([content, Buffer.alloc(offset - content.length)]), { mode: 0o600 });
    await api.registerMemory(name, `/${name}`, offset);
  } catch (cause) {
    rmSync(path, { force: true });
    const reason = cause instanceof Error ? cause.message : String(cause);
    const fix = "The server must run on this machine, as the same user";
    throw new ToolError(`Cannot share ${path} with the server: ${reason}`, { fix, cause });
  }
  return { inputs: shared, outputs, release };
}

function sizeOf({ datatype, shape }: TensorFacts, facts: ModelFacts, batchSize: number): number | undefined {
  const dims = facts.maxBatchSize > 0 ? [batchSize, ...shape.slice(1)] : shape;
  if (datatype === "BYTES" || dims.some((dim) => dim < 0)) return undefined;
  return dims.reduce((product, dim) => product * dim, elementSize(datatype));
}
