/** `nereid shims`: commands under the names that scripts for TensorRT-LLM and Triton call. */
import type { CommandSyntax, FlagTable } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { ownPrograms, writeShims } from "../shims/write-shims.ts";

const FLAGS = {} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "shims",
  description:
    "Writes trtllm-build, quantize.py, fill_template.py, launch_triton_server.py, run.py, huggingface-cli, tritonserver and others as thin commands, for scripts that call them. They run this installation of nereid.",
  flags: FLAGS,
  positionals: [{ name: "folder", summary: "a folder for the PATH" }],
  examples: ['nereid shims ~/.local/share/nereid/shims && export PATH="$HOME/.local/share/nereid/shims:$PATH"'],
};

export async function shimsCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ positionals, reporter }) => {
    const { folder, commands } = await writeShims(positionals[0] ?? "", ownPrograms());
    const next = `export PATH="${folder}:$PATH"`;
    reporter.result(`${folder}: ${commands.join(", ")}\nNext:\n  ${next}`, { folder, commands, next });
  });
}
