/** `nereid types`: TypeScript types for the models of a repository. */

import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { writeTypes } from "../repository/typescript/write-types.ts";

const FLAGS = {} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "types",
  description:
    "Writes model-types.d.ts beside every model of backend typescript: its inputs and outputs by name, from its config.pbtxt, and all that a model.ts can use.",
  flags: FLAGS,
  positionals: [{ name: "repository", summary: "a folder that holds a folder for each model", many: true }],
  examples: ["nereid types models"],
};

export async function typesCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ positionals, reporter }) => {
    if (positionals.length === 0) throw new UsageError("<repository> is missing: where the models are");
    const written = (await Promise.all(positionals.map(writeTypes))).flat();
    const lines = written.map(({ path, isNew }) => `${isNew ? "wrote" : "up to date:"} ${path}`);
    const text = lines.length === 0 ? `no model of backend typescript in ${positionals.join(", ")}` : lines.join("\n");
    reporter.result(text, { files: written });
  });
}
