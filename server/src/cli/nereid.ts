/** The `nereid` command: picks the subcommand and hands its arguments over. */
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { FLAGS } from "../config/flags/flag-table.ts";
import { scanArguments } from "../config/flags/getopt.ts";
import { nearestName } from "../config/suggest.ts";
import { importOptional, MissingPackageError, type OptionalPackage } from "../packages/optional-package.ts";

type Run = (argv: readonly string[]) => Promise<void>;

interface Command {
  readonly summary: string;
  /** Loaded when chosen, so that no command pays for the modules of another. */
  load(name: string): Promise<Run>;
}

/** A command of a package that may be absent; `exported` is the function that the module exports. */
function packaged(packageName: OptionalPackage, module: string, exported: string, summary: string): Command {
  return {
    summary,
    async load(name) {
      const neededBy = `the command '${name}'`;
      const loaded = await importOptional<Readonly<Record<string, Run>>>(packageName, module, neededBy);
      const run = loaded[exported];
      if (run === undefined) throw new Error(`${packageName}/${module} exports no ${exported}`);
      return run;
    },
  };
}

/** Tritonserver's flags leave nothing over: what stands beside them is a name. A file of arguments may hold the name. */
function hasName(argv: readonly string[]): boolean {
  if (argv.some((argument) => /^--(?:config|extra[-_]llm[-_]api[-_]options)(?:=|$)/.test(argument))) return true;
  return scanArguments(argv, FLAGS).positionals.length > 0;
}

/** Help of `serve` is that of names, which says where the server's own flags are; an installation of the server alone has those. */
async function serveAny(argv: readonly string[]): Promise<void> {
  if (hasName(argv)) return serveByName(argv);
  if (!argv.some((argument) => argument === "--help" || argument === "-h")) return serveRepositories(argv);
  await serveByName(argv).catch((error: unknown) => {
    if (!(error instanceof MissingPackageError)) throw error;
    return serveRepositories(argv);
  });
}

async function serveByName(argv: readonly string[]): Promise<void> {
  const run = await NAMED_SERVE.load("serve <name>");
  await run(argv);
}

async function serveRepositories(argv: readonly string[]): Promise<void> {
  const { serve } = await import("./serve.ts");
  await serve(argv, { hints: true });
}

const NAMED_SERVE = packaged("@nereid/offline", "models/cli/serve-model", "serveModelCommand", "");

const COMMANDS: ReadonlyMap<string, Command> = new Map<string, Command>([
  [
    "serve",
    {
      summary: "serve a model by its name, or model repositories; takes the flags of tritonserver",
      load: async () => serveAny,
    },
  ],
  [
    "run",
    packaged(
      "@nereid/offline",
      "models/cli/run",
      "runByArguments",
      "chat with a model by its name; or takes the flags of run.py",
    ),
  ],
  ["pull", packaged("@nereid/offline", "models/cli/pull", "pullCommand", "download a model by its name")],
  ["list", packaged("@nereid/offline", "models/cli/list", "listCommand", "list the models that are here")],
  ["show", packaged("@nereid/offline", "models/cli/show", "showCommand", "show the facts of a model that is here")],
  ["ps", packaged("@nereid/offline", "models/cli/ps", "psCommand", "list the servers that serve a model by its name")],
  ["stop", packaged("@nereid/offline", "models/cli/stop", "stopCommand", "end the server of a model")],
  ["rm", packaged("@nereid/offline", "models/cli/rm", "rmCommand", "remove models from the caches")],
  ["cp", packaged("@nereid/offline", "models/cli/cp", "cpCommand", "give a model a second name")],
  [
    "launch",
    packaged(
      "@nereid/offline",
      "models/cli/launch",
      "launchByArguments",
      "start a coding agent that asks this server; or takes the flags of launch_triton_server.py",
    ),
  ],
  [
    "doctor",
    packaged("@nereid/offline", "cli/doctor", "doctorCommand", "explain why a model repository will not load"),
  ],
  [
    "download",
    {
      summary: "fetch a model from the Hugging Face hub or a mirror",
      load: async () => (await import("./download.ts")).downloadCommand,
    },
  ],
  [
    "fill-template",
    packaged(
      "@nereid/offline",
      "cli/fill-template",
      "fillTemplateCommand",
      "fill the placeholders of a config.pbtxt; takes the command line of fill_template.py",
    ),
  ],
  [
    "convert-checkpoint",
    packaged(
      "@nereid/offline",
      "cli/convert-checkpoint",
      "convertCheckpointCommand",
      "convert a Hugging Face model; takes the flags of convert_checkpoint.py",
    ),
  ],
  [
    "build",
    packaged(
      "@nereid/offline",
      "cli/build",
      "buildCommand",
      "build an engine from a checkpoint; takes the flags of trtllm-build",
    ),
  ],
  [
    "quantize",
    packaged(
      "@nereid/offline",
      "cli/quantize",
      "quantizeCommand",
      "quantize a model and measure the perplexity; takes the flags of quantize.py",
    ),
  ],
  [
    "summarize",
    packaged(
      "@nereid/offline",
      "cli/summarize",
      "summarizeCommand",
      "score summaries of an engine; takes the flags of summarize.py",
    ),
  ],
  [
    "init-repo",
    packaged(
      "@nereid/offline",
      "cli/init-repo",
      "initRepoCommand",
      "write the model repository of a language model, filled in and checked",
    ),
  ],
  [
    "new-model",
    packaged("@nereid/offline", "cli/new-model", "newModelCommand", "write a model in TypeScript to begin with"),
  ],
  [
    "types",
    packaged(
      "@nereid/offline",
      "cli/types",
      "typesCommand",
      "write TypeScript types of models: for their clients, or beside models in TypeScript",
    ),
  ],
  [
    "shims",
    packaged(
      "@nereid/offline",
      "cli/shims",
      "shimsCommand",
      "write trtllm-build, quantize.py, run.py and others as thin commands, for scripts that call them",
    ),
  ],
  [
    "completion",
    {
      summary: "print the script that completes commands and flags in bash, zsh or fish",
      load: async () => {
        const { completionCommand } = await import("./completion.ts");
        return (argv) => completionCommand(argv, summaries());
      },
    },
  ],
  ["onnx", packaged("@nereid/onnx-tools", "cli/onnx", "onnxCommand", "export encoders as ONNX, quantize ONNX models")],
  [
    "trtexec",
    packaged(
      "@nereid/onnx-tools",
      "cli/trtexec",
      "trtexecCommand",
      "build the model.plan of platform tensorrt_plan; takes the flags of trtexec",
    ),
  ],
  [
    "bench",
    packaged(
      "@nereid/perf",
      "cli/bench",
      "benchCommand",
      "measure a server under load; takes the flags of perf_analyzer",
    ),
  ],
  [
    "tune",
    packaged(
      "@nereid/perf",
      "cli/tune",
      "tuneCommand",
      "search the configuration of a model that serves best; takes the keys of Model Analyzer",
    ),
  ],
  [
    "conformance",
    packaged("@nereid/perf", "cli/conformance", "conformanceCommand", "probe any V2 server, and report what differs"),
  ],
  [
    "record",
    packaged("@nereid/perf", "cli/record", "recordCommand", "record inference traffic in front of any V2 server"),
  ],
  [
    "replay",
    packaged(
      "@nereid/perf",
      "cli/replay",
      "replayCommand",
      "repeat recorded traffic, and report what is answered otherwise",
    ),
  ],
  [
    "index",
    packaged(
      "@nereid/retrieval",
      "cli/index-command",
      "indexCommand",
      "encode texts or images into a vector store for retrieval models",
    ),
  ],
]);

/** Words that stand for the help, the version and the list of commands. */
const HELP = ["help", "--help", "-h"];
const VERSION = ["version", "--version", "-v"];

export async function main(argv: readonly string[]): Promise<void> {
  // `nereid help serve` is `nereid serve --help`.
  const [first = "", second = "", ...others] = argv;
  const isHelpOf = first === "help" && second !== "" && !HELP.includes(second);
  const [name = "", ...rest] = isHelpOf ? [second, ...others, "--help"] : argv;
  const command = COMMANDS.get(name);
  if (command !== undefined) {
    await command
      .load(name)
      .then((run) => run(rest))
      .catch(reportMissing);
    return;
  }
  if (VERSION.includes(name)) {
    process.stdout.write(`nereid ${ownVersion()}\n`);
    return;
  }
  if (name !== "" && !HELP.includes(name)) {
    const nearest = nearestName(name, COMMANDS.keys());
    const hint = nearest === undefined ? "" : `; did you mean '${nearest}'?`;
    process.stderr.write(`nereid: there is no command '${name}'${hint}\nSee nereid --help\n`);
    process.exitCode = 1;
    return;
  }
  process.stdout.write(usage());
}

/** A missing package is the user's to install; everything else is a fault. */
function reportMissing(error: unknown): void {
  if (!(error instanceof MissingPackageError)) throw error;
  process.stderr.write(`nereid: ${error.message}\n`);
  process.exitCode = 1;
}

/** Version of the package of this file, built or not. */
function ownVersion(): string {
  let path = new URL("package.json", import.meta.url);
  while (!existsSync(path)) path = new URL("../package.json", path);
  return (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

function summaries(): ReadonlyMap<string, string> {
  return new Map([...COMMANDS].map(([name, { summary }]) => [name, summary]));
}

function usage(): string {
  const lines = [...COMMANDS].map(([name, { summary }]) => `  ${name.padEnd(20)} ${summary}`);
  const more = "nereid help <command> shows the flags of a command, nereid version the version.";
  return `Usage: nereid <command> [options]\n\nCommands:\n${lines.join("\n")}\n\n${more}\n`;
}
