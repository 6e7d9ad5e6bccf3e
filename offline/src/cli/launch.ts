/**
 * `nereid launch`: the flags of launch_triton_server.py. The server runs in the foreground, with its signals and exit
 * code.
 */
import { statSync } from "node:fs";
import process from "node:process";
import { type Arguments, type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { noEffectText } from "@nereid/server/cli/no-effect";
import { parseOrReport, reportUsage } from "@nereid/server/cli/run-command";
import { serve } from "@nereid/server/cli/serve";
import { Reporter } from "@nereid/server/files/progress";
import { diagnose } from "../repository/check/doctor.ts";
import { findingText } from "../repository/check/finding.ts";

const MAX_PORT = 65_535;
const MAX_RANKS = 1024;
const PORT = { type: "integer", min: 0, max: MAX_PORT } as const;

const FLAGS = {
  world_size: {
    type: "integer",
    min: 1,
    max: MAX_RANKS,
    default: 1,
    summary: "ranks of the engine (TP x PP): as many GPUs run it together, driven by one process",
  },
  model_repo: {
    type: "string",
    required: true,
    value: "DIR",
    aliases: ["model_repository"],
    summary: "the model repository",
  },
  http_port: { ...PORT, default: 8000, summary: "HTTP" },
  grpc_port: { ...PORT, default: 8001, summary: "gRPC" },
  metrics_port: { ...PORT, default: 8002, summary: "metrics" },
  log: { type: "switch", summary: "write a verbose log (level 3) to --log-file" },
  log_file: { type: "string", value: "FILE", default: "triton_log.txt", summary: "where --log writes" },
  tensorrt_llm_model_name: {
    type: "string",
    value: "NAMES",
    default: "tensorrt_llm",
    summary: "engine models, with commas between them; each must be in the repository",
  },
  multi_model: {
    type: "switch",
    summary: "several engines in one server, which is always possible; not with --world_size",
  },
  exit_timeout: {
    type: "integer",
    min: 0,
    value: "SECONDS",
    summary: "how long requests in flight may take when the server stops",
  },
  force: { type: "switch", short: "f", hidden: true, summary: "other servers on the host do no harm" },
  tritonserver: { type: "string", hidden: true, summary: "the server is this program" },
  multimodal_gpu0_cuda_mem_pool_bytes: { type: "integer", hidden: true, hasNoEffect: true, summary: "of GPUs" },
  disable_spawn_processes: {
    type: "switch",
    hidden: true,
    hasNoEffect: true,
    summary: "there are no processes to spawn",
  },
  oversubscribe: { type: "switch", hidden: true, hasNoEffect: true, summary: "of mpirun" },
  no_mpi: { type: "switch", hidden: true, hasNoEffect: true, summary: "there is no MPI" },
  trtllm_llmapi_launch: { type: "switch", hidden: true, hasNoEffect: true, summary: "of another engine" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "launch",
  description:
    "Starts the server in the foreground with the flags of launch_triton_server.py, as one process: no MPI, no ranks to wait for. Arguments after -- go to the server unchanged. When models do not load, it says why.",
  flags: FLAGS,
  positionals: [{ name: "-- server flags", summary: "flags of nereid serve", optional: true, many: true }],
  examples: ["nereid launch --world_size 1 --model_repo repo --http_port 8000 -- --http-address=127.0.0.1"],
};

type LaunchArguments = Arguments<typeof FLAGS>;

export async function launchCommand(argv: readonly string[]): Promise<void> {
  const parsed = parseOrReport(SYNTAX, argv);
  if (parsed === undefined) return;
  try {
    for (const note of launchNotes(parsed)) process.stderr.write(`nereid launch: ${note}\n`);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    reportUsage(error, SYNTAX.command);
    return;
  }
  const { model_repo: repository } = parsed.values;
  await serve(serverFlags(parsed), { hints: true, isExplained: true });
  const hasFailed = process.exitCode !== undefined && process.exitCode !== 0;
  if (hasFailed && statSync(repository, { throwIfNoEntry: false })?.isDirectory() === true) await explain(repository);
}

/** The command line that the original script builds for rank 0. */
function serverFlags({ values, positionals }: LaunchArguments): string[] {
  return [
    `--model-repository=${values.model_repo}`,
    `--grpc-port=${values.grpc_port}`,
    `--http-port=${values.http_port}`,
    `--metrics-port=${values.metrics_port}`,
    "--disable-auto-complete-config",
    ...(values.log ? ["--log-verbose=3", `--log-file=${values.log_file}`] : []),
    ...(values.world_size > 1 ? worldSizeFlags(values.world_size) : []),
    ...(values.exit_timeout === undefined ? [] : [`--exit-timeout-secs=${values.exit_timeout}`]),
    ...positionals,
  ];
}

/** Both backends serve engines. */
function worldSizeFlags(worldSize: number): string[] {
  return ["tensorrtllm", "llm"].map((backend) => `--backend-config=${backend},world-size=${worldSize}`);
}

/** Notes about differences from the original script. @throws UsageError */
function launchNotes({ values, given }: Pick<LaunchArguments, "values" | "given">): string[] {
  const ignored = noEffectText(FLAGS, given);
  const notes: string[] = ignored === undefined ? [] : [ignored];
  if (values.multi_model && values.world_size !== 1) throw new UsageError("--multi_model needs --world_size 1");
  if (values.world_size > 1) {
    notes.push(
      `one process drives ${values.world_size} GPUs; instances on the CPU put together what was split for them`,
    );
  }
  if (values.tritonserver !== undefined)
    notes.push(`--tritonserver ${values.tritonserver} is not started: this program is the server`);
  return notes;
}

async function explain(repository: string): Promise<void> {
  const reporter = new Reporter({ mode: "quiet", command: SYNTAX.command });
  const { findings } = await diagnose([repository], reporter, new AbortController().signal);
  const errors = findings.filter(({ severity }) => severity === "error");
  if (errors.length > 0) process.stderr.write(`\nWhy models did not load:\n${errors.map(findingText).join("\n")}\n`);
}
