/**
 * How many GPUs run an instance together, and which: from the model's parameters, the launcher's world size and the mapping
 * that a checkpoint was split by. Pure.
 */
import type { Environment } from "../../core/environment.ts";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import type { GpuRanks, RankNetwork } from "../../engine/engine-spec.ts";
import { MAX_RANKS, type RankMapping } from "../../formats/trtllm/rank-mapping.ts";

export interface RankSettings {
  /** GPUs that share each layer; undefined: not said. */
  readonly tensorParallel: number | undefined;
  /** Runs of layers, each on GPUs of its own. */
  readonly pipelineParallel: number | undefined;
  /** Sizes that the launcher passed. */
  readonly worldSize: number | undefined;
  /** `gpu_device_ids`: of each instance its GPUs. */
  readonly deviceIds: readonly (readonly number[])[];
}

export interface RankShape extends Pick<GpuRanks, "numTensorRanks" | "numStages"> {
  /** True if the user asked for it: then too few GPUs are an error. Else shards are merged. */
  readonly isAskedFor: boolean;
}

const MAX_PORT = 65_535;
const NETWORK_TIMEOUT_S = 300;

/** Parameters come before the world size, that before the checkpoint: weights are split anew while they are loaded. */
export function chooseRanks(settings: RankSettings, mapping: RankMapping): RankShape {
  const { tensorParallel, pipelineParallel, worldSize, deviceIds } = settings;
  const numDevices = deviceIds[0]?.length;
  if (tensorParallel !== undefined || pipelineParallel !== undefined) {
    return { numTensorRanks: tensorParallel ?? 1, numStages: pipelineParallel ?? 1, isAskedFor: true };
  }
  const asked = numDevices ?? worldSize;
  const ofFiles = { numTensorRanks: mapping.tensorParallel, numStages: mapping.pipelineParallel };
  const isAsSplit = asked === undefined || asked === ofFiles.numTensorRanks * ofFiles.numStages;
  if (isAsSplit) return { ...ofFiles, isAskedFor: asked !== undefined };
  return { numTensorRanks: asked, numStages: 1, isAskedFor: true };
}

/** Environment of a process that torchrun or a similar launcher started, one for each GPU. */
export function rankNetwork(environment: Environment): (RankNetwork & { readonly worldSize: number }) | undefined {
  const { RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, NEREID_RANK_TIMEOUT_S } = environment;
  const worldSize = Number(WORLD_SIZE ?? 1);
  const port = Number(MASTER_PORT ?? 0);
  if (RANK !== "0" || !(worldSize > 1) || MASTER_ADDR === undefined) return undefined;
  if (!Number.isInteger(port) || port < 1 || port > MAX_PORT) {
    throw invalidArgument(`MASTER_PORT is '${MASTER_PORT}', expected a port from 1 to ${MAX_PORT}`);
  }
  const timeoutMs = 1000 * Number(NEREID_RANK_TIMEOUT_S ?? NETWORK_TIMEOUT_S);
  return { address: MASTER_ADDR, port, timeoutMs, worldSize };
}

/** "0,1;2,3": GPUs of a first and of a second instance. @throws ServerError for what is no list of numbers */
export function parseDeviceIds(text: string | undefined, refuse: (expected: string) => ServerError): number[][] {
  if (text === undefined) return [];
  const lists = text.split(";").map((part) => part.split(",").map((id) => id.trim()));
  const isRight = lists.every((ids) => ids.every((id) => /^\d{1,3}$/.test(id)) && new Set(ids).size === ids.length);
  const isEven = lists.every((ids) => ids.length === lists[0]?.length);
  if (!isRight || !isEven || (lists[0]?.length ?? 0) > MAX_RANKS) {
    throw refuse("numbers of GPUs with commas between them, as many for each instance, instances separated by ';'");
  }
  return lists.map((ids) => ids.map(Number));
}

/** GPUs of one instance. @throws ServerError when they are not as many as are to run it */
export function ranksOn(
  shape: RankShape,
  ordinals: readonly number[],
  refuse: (text: string) => ServerError,
): GpuRanks | undefined {
  const { numTensorRanks, numStages } = shape;
  const size = numTensorRanks * numStages;
  if (size > MAX_RANKS) throw refuse(`at most ${MAX_RANKS} GPUs run an instance together, got ${size}`);
  if (ordinals.length !== size) {
    throw refuse(`${size} GPUs run an instance together, got ${ordinals.length} (${ordinals.join(", ")})`);
  }
  return size === 1 ? undefined : { numTensorRanks, numStages, ordinals };
}
