/** `nereid onnx`: dispatches to its subcommands. */
import process from "node:process";
import { nearestName } from "@nereid/server/config/suggest";

const COMMANDS: ReadonlyMap<string, () => Promise<(argv: readonly string[]) => Promise<void>>> = new Map([
  ["export", async () => (await import("./onnx-export.ts")).onnxExportCommand],
  ["quantize", async () => (await import("./onnx-quantize.ts")).onnxQuantizeCommand],
]);

const USAGE = `Usage: nereid onnx <command> [options]

Commands:
  export    write BERT, MiniLM, CLIP, LLaVA and Qwen2-VL encoders as ONNX, from a Hugging Face folder
  quantize  8-bit integers for the products of an ONNX model, with the error that it costs
`;

export async function onnxCommand(argv: readonly string[]): Promise<void> {
  const [name = "", ...rest] = argv;
  const load = COMMANDS.get(name);
  if (load !== undefined) {
    const run = await load();
    await run(rest);
    return;
  }
  if (name === "--help" || name === "-h") {
    process.stdout.write(USAGE);
    return;
  }
  const nearest = nearestName(name, COMMANDS.keys());
  const hint = nearest === undefined ? "" : `; did you mean '${nearest}'?`;
  const problem = name === "" ? "a command is missing" : `there is no command '${name}'${hint}`;
  process.stderr.write(`nereid onnx: ${problem}\n${USAGE}`);
  process.exitCode = 2;
}
