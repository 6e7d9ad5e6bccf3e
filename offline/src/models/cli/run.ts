/** `nereid run`: a chat with a model by its name, or the command line of TensorRT-LLM's run.py. The arguments decide. */
import { RUN_FLAG_NAMES, runEngineCommand } from "../../cli/run.ts";
import { CHAT_FLAG_NAMES, runModelCommand } from "./run-model.ts";

export async function runByArguments(argv: readonly string[]): Promise<void> {
  await (isForEngine(argv) ? runEngineCommand(argv) : runModelCommand(argv));
}

/** A name stands first, and run.py has none: it is recognized by a flag of its own. */
export function isForEngine(argv: readonly string[]): boolean {
  const [first] = argv;
  if (first !== undefined && !first.startsWith("-")) return false;
  return argv.some((argument) => {
    if (!argument.startsWith("--")) return false;
    const name = canonical(argument.slice(2).replace(/=.*$/s, ""));
    const begins = (known: string): boolean => name !== "" && canonical(known).startsWith(name);
    return RUN_FLAG_NAMES.some(begins) && !CHAT_FLAG_NAMES.some(begins);
  });
}

function canonical(name: string): string {
  return name.replaceAll("_", "-");
}
