/**
 * The cost of an event by stage, from a profile that V8 took of the server (`--cpu-prof`): each sample counts for the
 * function that ran. Time that belongs to no file, as in system calls, counts for the function that called it.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Part of the path of a compiled file, and its stage. The first that fits counts. */
const STAGES: readonly (readonly [part: string, stage: string])[] = [
  ["/engine/", "engine frame"],
  ["/child-process/", "engine frame"],
  ["/backend/llm/", "tensors of the engine"],
  ["/scheduler/ensemble/", "ensemble steps"],
  ["/backend/tokenizer/", "detokenizer"],
  ["/formats/tokenizer/", "detokenizer"],
  ["/scheduler/", "scheduler"],
  ["/repository/", "scheduler"],
  ["/core/", "scheduler"],
  ["/wire/", "JSON or protobuf"],
  ["/protocol/http/generate/", "JSON or protobuf"],
  ["/protocol/grpc/infer/", "JSON or protobuf"],
  ["/protocol/", "transport"],
  ["node:internal/process/task_queues", "event loop"],
  ["node:internal/timers", "event loop"],
  ["node:", "socket"],
];

export const STAGE_NAMES: readonly string[] = [
  ...new Set(STAGES.map(([, stage]) => stage)),
  "garbage collector",
  "other",
];

interface ProfileNode {
  readonly id: number;
  readonly callFrame: { readonly functionName: string; readonly url: string };
  readonly children?: readonly number[];
}

interface Profile {
  readonly nodes: readonly ProfileNode[];
  /** Microseconds of the monotonic clock. */
  readonly startTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** Microseconds by stage between two times of the monotonic clock, of the process of this id. */
export function stagesOf(folder: string, pid: number, fromUs: number, toUs: number): ReadonlyMap<string, number> {
  const profile = readProfile(folder, pid);
  const stageOf = stagesById(profile.nodes);
  const sums = new Map<string, number>();
  let atUs = profile.startTime;
  for (const [i, id] of profile.samples.entries()) {
    const spentUs = profile.timeDeltas[i + 1] ?? 0;
    atUs += profile.timeDeltas[i] ?? 0;
    const stage = stageOf.get(id);
    if (stage !== undefined && atUs >= fromUs && atUs < toUs) sums.set(stage, (sums.get(stage) ?? 0) + spentUs);
  }
  return sums;
}

/** Functions by their own time, for a closer look. */
export function hottest(
  folder: string,
  pid: number,
  fromUs: number,
  toUs: number,
): readonly (readonly [string, number])[] {
  const profile = readProfile(folder, pid);
  const names = new Map(profile.nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
  const sums = new Map<string, number>();
  let atUs = profile.startTime;
  for (const [i, id] of profile.samples.entries()) {
    atUs += profile.timeDeltas[i] ?? 0;
    const name = names.get(id) ?? "";
    if (atUs >= fromUs && atUs < toUs) sums.set(name, (sums.get(name) ?? 0) + (profile.timeDeltas[i + 1] ?? 0));
  }
  return [...sums].sort(([, a], [, b]) => b - a);
}

function nameOf({ functionName, url }: ProfileNode["callFrame"]): string {
  return `${functionName} ${url.split("/").slice(-3).join("/")}`;
}

function readProfile(folder: string, pid: number): Profile {
  for (const name of readdirSync(folder)) {
    if (name.split(".")[3] === String(pid)) return JSON.parse(readFileSync(join(folder, name), "utf8")) as Profile;
  }
  throw new Error(`no profile of process ${pid} in ${folder}`);
}

function stagesById(nodes: readonly ProfileNode[]): ReadonlyMap<number, string> {
  const stages = new Map<number, string>();
  const parents = new Map<number, number>();
  for (const { id, children } of nodes) for (const child of children ?? []) parents.set(child, id);
  for (const { id, callFrame } of nodes) {
    const stage = ownStage(callFrame) ?? stages.get(parents.get(id) ?? 0) ?? "other";
    if (callFrame.functionName !== "(idle)") stages.set(id, stage);
  }
  return stages;
}

/** Undefined: native, as its caller. */
function ownStage({ functionName, url }: ProfileNode["callFrame"]): string | undefined {
  if (functionName === "(garbage collector)") return "garbage collector";
  return STAGES.find(([part]) => url.includes(part))?.[1];
}
