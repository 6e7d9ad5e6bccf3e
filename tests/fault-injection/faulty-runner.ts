/**
 * Stands in for `engine/cuda/create-runner.ts` of the server under test: the same runner, with the fault that NEREID_TEST_GPU_FAULT
 * names. hooks.ts puts it there, with the address of the module that it replaces.
 */
import process from "node:process";
import type { createCudaRunner as CreateCudaRunner } from "../../server/src/engine/cuda/create-runner.ts";
import { injectFault, parseFault } from "./gpu-fault.ts";

const replaced = new URL(import.meta.url).searchParams.get("replaces") ?? "";
const original: { readonly createCudaRunner: typeof CreateCudaRunner } = await import(replaced);
const fault = parseFault(process.env.NEREID_TEST_GPU_FAULT);

export const createCudaRunner: typeof CreateCudaRunner = async (options, join) =>
  injectFault(await original.createCudaRunner(options, join), fault);
