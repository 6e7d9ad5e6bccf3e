/** The `nereid` command: picks the subcommand and hands its arguments over. */
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { nearestName } from "../config/suggest.ts";

interface Command {
  readonly summary: string;
  /** Loaded when chosen, so that no command pays for another's modules. */
  load(): Promise<(argv: readonly string[]) => Promise<void>>;
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
      load: async () => (await import("./doctor.ts")).doctorCommand,
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
      load: async () => (await import("./fill-template.ts")).fillTemplateCommand,
    },
  ],
  [
    "convert-checkpoint",
    {
      summary: "convert a model of Hugging Face; takes the flags of convert_checkpoint.py",
      load: async () => (await import("./convert-checkpoint.ts")).convertCheckpointCommand,
    },
  ],
  [
    "build",
    {
      summary: "build an engine of a checkpoint; takes the flags of trtllm-build",
      load: async () => (await import("./build.ts")).buildCommand,
    },
  ],
  [
    "quantize",
    {
      summary: "quantize a model and say what that costs; takes the flags of quantize.py",
      load: async () => (await import("./quantize.ts")).quantizeCommand,
    },
  ],
  [
    "run",
    {
      summary: "generate replies without a server; takes the flags of run.py",
      load: async () => (await import("./run.ts")).runEngineCommand,
    },
  ],
  [
    "summarize",
    {
      summary: "score summaries of an engine; takes the flags of summarize.py",
      load: async () => (await import("./summarize.ts")).summarizeCommand,
    },
  ],
  [
    "init-repo",
    {
      summary: "write the model repository of a language model, filled in and checked",
      load: async () => (await import("./init-repo.ts")).initRepoCommand,
    },
  ],
  [
    "new-model",
    {
      summary: "write a model in TypeScript to begin with",
      load: async () => (await import("./new-model.ts")).newModelCommand,
    },
  ],
  [
    "types",
    {
      summary: "write the types of models in TypeScript beside them",
      load: async () => (await import("./types.ts")).typesCommand,
    },
  ],
  [
    "onnx",
    {
      summary: "export encoders as ONNX, quantize ONNX models",
      load: async () => (await import("./onnx.ts")).onnxCommand,
    },
  ],
  [
    "trtexec",
    {
      summary: "make an ONNX model the model.plan of platform tensorrt_plan; takes the flags of trtexec",
      load: async () => (await import("./trtexec.ts")).trtexecCommand,
    },
  ],
  [
    "index",
    {
      summary: "encode texts or pictures into a collection for models that look things up",
      load: async () => (await import("./index.ts")).indexCommand,
    },
  ],
  [
    "launch",
    {
      summary: "serve in the foreground; takes the flags of launch_triton_server.py",
      load: async () => (await import("./launch.ts")).launchCommand,
    },
  ],
]);

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
