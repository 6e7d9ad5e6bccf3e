/** `nereid cp NAME OTHER`: a second name for a model. No file is copied. */
import { existsSync } from "node:fs";
import type { CommandSyntax, FlagTable } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { ToolError } from "@nereid/server/files/tool-error";
import { resolveModel } from "../resolve/resolve-model.ts";
import { NAME_ARGUMENT, resolveContext } from "./model-flags.ts";

const FLAGS = {} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "cp",
  description: "Gives a model that is here a second name, which all commands and APIs take. No file is copied.",
  flags: FLAGS,
  positionals: [NAME_ARGUMENT, { name: "other", summary: "the second name: letters, digits, '.', '_', '-' and ':'" }],
  examples: ["nereid cp Qwen/Qwen2.5-0.5B-Instruct small"],
};

export async function cpCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ positionals, reporter, signal }) => {
    const [name = "", other = ""] = positionals;
    const context = resolveContext({ offline: true }, { reporter, signal });
    const model = await resolveModel(name, context);
    const aliases = await context.store.aliases();
    if (!/^[\w][\w.:-]*$/.test(other) || existsSync(other)) {
      throw new ToolError(
        `'${other}' cannot be a second name: it is a path, or has other characters than letters, digits and ._:-`,
      );
    }
    if (aliases.has(other)) {
      throw new ToolError(`'${other}' stands for ${aliases.get(other)} already`, { fix: `nereid rm ${other}, first` });
    }
    const meant = aliases.get(name) ?? (existsSync(name) ? model.path : name);
    await context.store.writeAliases(new Map([...aliases, [other, meant]]));
    reporter.result(`${other} stands for ${meant}`, { name: other, stands_for: meant });
  });
}
