/** `nereid serve NAME`: finds the model of a name, says what will run, and serves it. */
import process from "node:process";
import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { urlOf } from "@nereid/server/cli/curl-hints";
import { runCommand } from "@nereid/server/cli/run-command";
import { serve } from "@nereid/server/cli/serve";
import { FLAGS as SERVER_FLAGS } from "@nereid/server/config/flags/flag-table";
import { scanArguments } from "@nereid/server/config/flags/getopt";
import { availableProcessors, processorName } from "@nereid/server/device/cpu/available-processors";
import { freeMemory } from "@nereid/server/device/cpu/free-memory";
import type { Reporter } from "@nereid/server/files/progress";
import { formatBytes } from "@nereid/server/files/progress-text";
import { ToolError } from "@nereid/server/files/tool-error";
import { parseTemplateValues } from "../../template/template-values.ts";
import { describeModel, factsLine } from "../prepare/describe-model.ts";
import { fitOnCpu, fitTable } from "../prepare/fit-model.ts";
import { type PreparedModel, prepareModel } from "../prepare/prepare-model.ts";
import { resolveModel } from "../resolve/resolve-model.ts";
import type { ResolvedModel } from "../resolve/resolved-model.ts";
import type { ModelStore } from "../store/model-store.ts";
import { recordServer } from "../store/running-servers.ts";
import { engineOf, LOAD_FLAGS, NAME_ARGUMENT, resolveContext } from "./model-flags.ts";
import { readServeConfig } from "./serve-config.ts";
import { type Endpoints, servingText } from "./serving-text.ts";

const MAX_BATCH_SIZE = 64;

const FLAGS = {
  ...LOAD_FLAGS,
  max_batch_size: {
    type: "integer",
    min: 1,
    max: 4096,
    default: MAX_BATCH_SIZE,
    summary: "requests that run at the same time",
  },
  config: {
    type: "string",
    value: "FILE",
    aliases: ["extra-llm-api-options"],
    summary: "YAML file of LLM() arguments, as trtllm-serve takes it; without a name its 'model' is served",
  },
  fit: { type: "switch", summary: "say what fits this machine's CPU and how fast it may be, and serve nothing" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "serve",
  description:
    "Serves one model by its name, on all APIs. It is downloaded if it is not here. All flags of tritonserver may follow (tritonserver --help); with --model-repository in place of a name, they are the only ones.",
  flags: FLAGS,
  positionals: [{ ...NAME_ARGUMENT, optional: true }],
  examples: [
    "nereid serve Qwen/Qwen2.5-0.5B-Instruct",
    "nereid serve ./model.gguf --http-port=9000",
    "nereid serve --model-repository=models",
  ],
};

export async function serveModelCommand(argv: readonly string[]): Promise<void> {
  const { own, others } = splitFlags(argv);
  let found: { readonly prepared: PreparedModel; readonly store: ModelStore } | undefined;
  await runCommand(SYNTAX, own, async ({ values, positionals, reporter, signal }) => {
    const config = await readServeConfig(values.config);
    const [name = config.model] = positionals;
    if (name === undefined) throw new UsageError("<name> is missing: which model to serve");
    if (others.some((flag) => flag.startsWith("--model-repository") || flag.startsWith("--model-store"))) {
      throw new UsageError("give a name or --model-repository, not both");
    }
    const context = resolveContext(values, { reporter, signal });
    const resolved = await resolveModel(name, context);
    if (values.fit) return tellFit(resolved, values.max_batch_size, reporter, signal);
    const { set, max_batch_size: maxBatchSize } = values;
    const options = {
      maxBatchSize,
      weightType: values["weight-type"] ?? config.weightType,
      engine: engineOf(values),
      others: set === undefined ? new Map<string, string>() : parseTemplateValues(set, () => false).values,
      parameters: config.parameters,
    };
    const prepared = await prepareModel(resolved, options, context);
    for (const line of prepared.lines) reporter.info(line);
    for (const note of config.notes) reporter.info(`Note    ${note}`);
    if (prepared.system !== undefined)
      reporter.info("Note    its system message is sent by nereid run only; clients send their own");
    signal.throwIfAborted();
    found = { prepared, store: context.store };
  });
  if (found !== undefined) await serveRepository(found.prepared, others, found.store);
}

/** @throws ToolError for a model repository, and for files that no type of weights makes fit */
async function tellFit(
  { kind, path, origin }: ResolvedModel,
  maxSequences: number,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<void> {
  if (kind === "repository")
    throw new ToolError(`${path} is a model repository`, { fix: "Give the folder of one model, for --fit" });
  const facts = await describeModel(path);
  if (facts.engine !== "nereid")
    throw new ToolError(`--fit counts models of our own engine; ${facts.engine} computes this one`, {
      fix: "Leave --fit out: the line Memory of the start says what it takes",
    });
  const fits = await fitOnCpu(path, maxSequences, signal);
  const machine = `${availableProcessors()} processors (${processorName()}), ${formatBytes(freeMemory())} of memory free`;
  reporter.result(`Found   ${origin}\nModel   ${factsLine(facts)}\nMachine ${machine}\n\n${fitTable(fits)}`, { fits });
  if (fits.every(({ numBytes }) => numBytes === undefined)) process.exitCode = 1;
}

/** Log lines of a start are for operators of repositories; here the few lines above say what runs. */
async function serveRepository(
  { repository, servedName }: PreparedModel,
  flags: readonly string[],
  store: ModelStore,
): Promise<void> {
  const quiet = servedName === undefined || flags.some((flag) => flag.startsWith("--log-")) ? [] : ["--log-info=false"];
  const argv = [`--model-repository=${repository}`, ...quiet, ...flags];
  if (servedName === undefined) return serve(argv, { hints: true });
  let record: Disposable | undefined;
  await serve(argv, {
    hints: true,
    readyText(endpoints, options) {
      record = recordEndpoints(store, servedName, endpoints);
      return servingText(servedName, endpoints, options.console.isEnabled);
    },
  });
  record?.[Symbol.dispose]();
}

/** For `nereid run`, `ps` and `stop`. A server without HTTP is none that they could ask. */
function recordEndpoints(store: ModelStore, name: string, endpoints: Endpoints): Disposable | undefined {
  const http = endpoints.get("http");
  return http === undefined ? undefined : recordServer(store, { name, url: urlOf(http.address, http.port, false) });
}

const OWN_NAMES: readonly string[] = [
  "offline",
  "config",
  "extra-llm-api-options",
  "fit",
  "weight-type",
  "engine",
  "set",
  "max-batch-size",
  "quiet",
  "json",
  "help",
];
const OWN_WITH_VALUE: readonly string[] = [
  "config",
  "extra-llm-api-options",
  "weight-type",
  "engine",
  "set",
  "max-batch-size",
];

/** This command's flags and the name, apart from the server's flags with their values. */
export function splitFlags(argv: readonly string[]): { readonly own: string[]; readonly others: string[] } {
  const own: string[] = [];
  const others: string[] = [];
  for (let index = 0; index < argv.length; ) {
    const argument = argv[index] ?? "";
    const isOwn = !argument.startsWith("--") || OWN_NAMES.includes(nameOf(argument));
    const count = takesNext(argument, argv[index + 1]) ? 2 : 1;
    (isOwn ? own : others).push(...argv.slice(index, index + count));
    index += count;
  }
  return { own, others };
}

function nameOf(argument: string): string {
  return argument.replace(/^--/, "").replace(/=.*$/s, "").replaceAll("_", "-");
}

/** Whether the value of a flag is the next argument. */
function takesNext(argument: string, next: string | undefined): boolean {
  if (!argument.startsWith("--") || argument.includes("=") || next === undefined) return false;
  if (OWN_NAMES.includes(nameOf(argument))) return OWN_WITH_VALUE.includes(nameOf(argument));
  const { items, positionals } = scanArguments([argument, next], SERVER_FLAGS);
  return items.length === 1 && positionals.length === 0;
}
