/**
 * The recorded answers of Triton (tests/golden of the repository) as probes of a running server. The profile "default" suits a
 * server that serves `repository/main` of the same folder with no further flag; the replayer connects to this machine only.
 */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { ToolError } from "@nereid/server/files/tool-error";
import { Failure, type Probe, Skip } from "./probe.ts";

export interface ProbedPorts {
  readonly http: number;
  /** Undefined: gRPC probes are skipped. */
  readonly grpc: number | undefined;
  readonly metrics: number | undefined;
}

interface RecordedProbe {
  readonly id: string;
  readonly group: string;
  readonly mode: string;
  readonly rpc?: string;
  readonly port?: string;
  readonly before?: readonly { readonly op?: string }[];
}

/** Contract of replay.mjs. */
interface Replayer {
  runProbe(
    probe: RecordedProbe,
    ports: object,
    judge: (answer: unknown) => string | null,
  ): Promise<{ readonly found: string | null }>;
  compareHttp(probe: RecordedProbe, answer: unknown): string | null;
  compareGrpc(probe: RecordedProbe, answer: unknown): string | null;
}

const PROFILE = "default";
const FILES = ["probes.jsonl", "grpc-probes.jsonl"];
/** Steps that write into the repository of the server, which is not this program's. */
const REPOSITORY_STEPS = ["copy", "remove"];

/** @throws ToolError when the folder has no recorded set */
export async function recordedProbes(folder: string, ports: ProbedPorts): Promise<readonly Probe[]> {
  const program = resolve(join(folder, "replay.mjs"));
  if (!existsSync(program)) {
    throw new ToolError(`${folder} has no replay.mjs`, { fix: "Name the folder tests/golden of a checkout" });
  }
  const replayer = (await import(pathToFileURL(program).href)) as Replayer;
  const lines = FILES.flatMap((name) => readFileSync(join(folder, name), "utf8").split("\n"));
  const recorded = lines.filter((line) => line.trim() !== "").map((line) => JSON.parse(line) as RecordedProbe);
  return recorded
    .filter(({ mode }) => mode === PROFILE)
    .map((probe) => ({
      group: `recorded ${probe.group}`,
      name: probe.id,
      source: "recorded answers of Triton 2.70.0",
      async run() {
        const reason = reasonToSkip(probe, ports);
        if (reason !== undefined) throw new Skip(reason);
        const judge = (answer: unknown): string | null =>
          probe.rpc === undefined ? replayer.compareHttp(probe, answer) : replayer.compareGrpc(probe, answer);
        const { found } = await replayer.runProbe(probe, ports, judge);
        if (found) throw new Failure(found);
      },
    }));
}

function reasonToSkip({ rpc, port, before = [] }: RecordedProbe, { grpc, metrics }: ProbedPorts): string | undefined {
  if (rpc !== undefined && grpc === undefined) return "no --grpc-url";
  if (port === "metrics" && metrics === undefined) return "no --metrics-port";
  const isLocal = before.some(({ op }) => op !== undefined && REPOSITORY_STEPS.includes(op));
  return isLocal ? "it changes the repository of the server" : undefined;
}
