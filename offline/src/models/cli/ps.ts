/** `nereid ps`: servers of this user that serve a model by its name. */
import type { CommandSyntax, FlagTable } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { runningServers } from "../store/running-servers.ts";
import { resolveContext } from "./model-flags.ts";
import { agoText, textTable } from "./text-table.ts";

const FLAGS = {} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "ps",
  description: "Lists the servers of nereid serve NAME that run on this machine.",
  flags: FLAGS,
  examples: ["nereid ps"],
};

export async function psCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ reporter, signal }) => {
    const servers = runningServers(resolveContext({}, { reporter, signal }).store);
    const rows = servers.map(({ name, pid, url, startedMs }) => [name, String(pid), url, agoText(startedMs)]);
    const text =
      rows.length === 0
        ? "No server is running. nereid serve NAME starts one."
        : textTable(["NAME", "PID", "URL", "STARTED"], rows);
    reporter.result(text, { servers });
  });
}
