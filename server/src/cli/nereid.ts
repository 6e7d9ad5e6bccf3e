/** The `nereid` command: picks the subcommand and hands its arguments over. */
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { nearestName } from "../config/suggest.ts";
import { importOptional, type OptionalPackage } from "../packages/optional-package.ts";

interface Command {
  readonly summary: string;
  /** Loaded when chosen, so that no command pays for another's modules. */
  load(): Promise<Run>;
}

const COMMANDS: ReadonlyMap<string, Command> = new Map([
  [
    "serve",
    {
      summary: "serve model repositories; takes the flags of tritonserver",
      load: async () => {
        const { serve } = await import("./serve.ts");
        return (argv) => serve(argv, { hints: true });
      },
    },
  ],
  [
    "doctor",
    {
      summary: "explain why a model repository will not load",
      load: () => packagedCommand("@nereid/offline", "cli/doctor", "doctorCommand"),
    },
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
    {
      summary: "fill the placeholders of a config.pbtxt; takes the command line of fill_template.py",
      load: () => packagedCommand("@nereid/offline", "cli/fill-template", "fillTemplateCommand"),
    },
  ],
  [
    "convert-checkpoint",
    {
      summary: "convert a model of Hugging Face; takes the flags of convert_checkpoint.py",
      load: () => packagedCommand("@nereid/offline", "cli/convert-checkpoint", "convertCheckpointCommand"),
    },
  ],
  [
    "build",
    {
      summary: "build an engine of a checkpoint; takes the flags of trtllm-build",
      load: () => packagedCommand("@nereid/offline", "cli/build", "buildCommand"),
    },
  ],
  [
    "quantize",
    {
      summary: "quantize a model and say what that costs; takes the flags of quantize.py",
      load: () => packagedCommand("@nereid/offline", "cli/quantize", "quantizeCommand"),
    },
  ],
  [
    "run",
    {
      summary: "generate replies without a server; takes the flags of run.py",
      load: () => packagedCommand("@nereid/offline", "cli/run", "runEngineCommand"),
    },
  ],
  [
    "summarize",
    {
      summary: "score summaries of an engine; takes the flags of summarize.py",
      load: () => packagedCommand("@nereid/offline", "cli/summarize", "summarizeCommand"),
    },
  ],
  [
    "init-repo",
    {
      summary: "write the model repository of a language model, filled in and checked",
      load: () => packagedCommand("@nereid/offline", "cli/init-repo", "initRepoCommand"),
    },
  ],
  [
    "new-model",
    {
      summary: "write a model in TypeScript to begin with",
      load: () => packagedCommand("@nereid/offline", "cli/new-model", "newModelCommand"),
    },
  ],
  [
    "types",
    {
      summary: "write the types of models in TypeScript beside them",
      load: () => packagedCommand("@nereid/offline", "cli/types", "typesCommand"),
    },
  ],
  [
    "onnx",
    {
      summary: "export encoders as ONNX, quantize ONNX models",
      load: () => packagedCommand("@nereid/onnx-tools", "cli/onnx", "onnxCommand"),
    },
  ],
  [
    "trtexec",
    {
      summary: "make an ONNX model the model.plan of platform tensorrt_plan; takes the flags of trtexec",
      load: () => packagedCommand("@nereid/onnx-tools", "cli/trtexec", "trtexecCommand"),
    },
  ],
  [
    "index",
    {
      summary: "encode texts or pictures into a collection for models that look things up",
      load: () => packagedCommand("@nereid/retrieval", "cli/index-command", "indexCommand"),
    },
  ],
  [
    "launch",
    {
      summary: "serve in the foreground; takes the flags of launch_triton_server.py",
      load: () => packagedCommand("@nereid/offline", "cli/launch", "launchCommand"),
    },
  ],
]);

type Run = (argv: readonly string[]) => Promise<void>;

/** A command of a package that may be absent. `name` is the function that the module exports. */
async function packagedCommand(packageName: OptionalPackage, module: string, name: string): Promise<Run> {
  const loaded = await importOptional<Readonly<Record<string, Run>>>(packageName, module, "this command");
  const run = loaded[name];
  if (run === undefined) throw new Error(`${packageName}/${module} exports no ${name}`);
  return run;
}

export async function main(argv: readonly string[]): Promise<void> {
  const [name = "", ...rest] = argv;
  const command = COMMANDS.get(name);
  if (command !== undefined) {
    const run = await command.load();
    await run(rest);
    return;
  }
  if (name === "--version") {
    process.stdout.write(`nereid ${ownVersion()}\n`);
    return;
  }
  if (name !== "" && name !== "--help" && name !== "help") {
    const nearest = nearestName(name, COMMANDS.keys());
    const hint = nearest === undefined ? "" : `; did you mean '${nearest}'?`;
    process.stderr.write(`nereid: there is no command '${name}'${hint}\n`);
    process.exitCode = 1;
  }
  process.stdout.write(usage());
}

/** Of the package that this file lies in, built or not. */
function ownVersion(): string {
  let path = new URL("package.json", import.meta.url);
  while (!existsSync(path)) path = new URL("../package.json", path);
  return (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

function usage(): string {
  const lines = [...COMMANDS].map(([name, { summary }]) => `  ${name.padEnd(20)} ${summary}`);
  return `Usage: nereid <command> [options]\n\nCommands:\n${lines.join("\n")}\n`;
}
