/** GPU memory of an ONNX model after many clients have used it, by settings of the session. */
import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { startHttpLoad } from "../serving/http-load.ts";
import { binaryRequest } from "../serving/messages.ts";
import { MODELS, writeModels } from "./onnx-models.ts";
import { type ServerPlan, startServer } from "./served-server.ts";

interface Variant {
  readonly model: string;
  /** Settings of ONNX Runtime's CUDA provider. */
  readonly settings?: Readonly<Record<string, string>>;
}

const VARIANTS: readonly Variant[] = [
  { model: "text_encoder" },
  { model: "vision_encoder" },
  { model: "vision_encoder", settings: { cudnn_conv_algo_search: "HEURISTIC" } },
];
const NUM_CLIENTS = 32;
const LOAD_MS = 1000;

export function usedMemory(pid: number | undefined): string {
  const command = ["--query-compute-apps=pid,used_memory", "--format=csv,noheader"];
  const rows = execFileSync("nvidia-smi", command, { encoding: "utf8", timeout: 10_000 }).trim().split("\n");
  return rows.find((row) => row.startsWith(`${pid},`))?.split(", ")[1] ?? "none";
}

export async function showMemoryBySettings(plan: ServerPlan, examples: string): Promise<void> {
  for (const { model, settings = {} } of VARIANTS) {
    const parameters = Object.entries(settings).map(([key, value]) => `parameters { key: "${key}" value: "${value}" }`);
    const accelerator = `gpu_execution_accelerator: [ { name: "cuda" ${parameters.join(" ")} } ]`;
    writeModels(
      plan.repository,
      examples,
      [model],
      ["gpu"],
      `optimization { execution_accelerators { ${accelerator} } }`,
    );
    const server = await startServer(plan);
    const before = usedMemory(server.child.pid);
    const load = startHttpLoad(plan.port, binaryRequest(`${model}_gpu`, MODELS[model]?.inputs(1) ?? []), NUM_CLIENTS);
    await sleep(LOAD_MS);
    load.stop();
    const how = JSON.stringify(settings);
    console.log(
      `memory ${model} ${how}: ${before} loaded, ${usedMemory(server.child.pid)} after ${load.tally.completed}`,
    );
    await server.stop();
  }
}
