/** `nereid pull NAME`: fetches a model, or its newest revision, and serves nothing. */
import type { CommandSyntax, FlagTable } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { resolveModel } from "../resolve/resolve-model.ts";
import { NAME_ARGUMENT, resolveContext } from "./model-flags.ts";

const FLAGS = {} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "pull",
  description: "Downloads a model by its name, or what has changed since the last time. Resumes an earlier run.",
  flags: FLAGS,
  positionals: [NAME_ARGUMENT],
  examples: ["nereid pull Qwen/Qwen2.5-0.5B-Instruct", "nereid pull hf.co/org/model:Q4_K_M"],
};

export async function pullCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ positionals, reporter, signal }) => {
    const { path, origin } = await resolveModel(
      positionals[0] ?? "",
      resolveContext({ refreshes: true }, { reporter, signal }),
    );
    reporter.info(origin);
    reporter.result(path, { path });
  });
}
