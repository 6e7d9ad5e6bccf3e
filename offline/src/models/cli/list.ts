/** `nereid list`: the models of this user's caches. */
import type { CommandSyntax, FlagTable } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { formatBytes } from "@nereid/server/files/progress-text";
import { type StoredModel, storedModels } from "../store/stored-models.ts";
import { resolveContext } from "./model-flags.ts";
import { agoText, textTable } from "./text-table.ts";

const FLAGS = {} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "list",
  description:
    "Lists the models that are here: those of the cache of the Hugging Face hub, of Ollama's library, of URLs, and second names.",
  flags: FLAGS,
  examples: ["nereid list"],
};

export async function listCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ reporter, signal }) => {
    const { store, hub } = resolveContext({}, { reporter, signal });
    const models = await storedModels(store, hub);
    const fields = models.map(({ name, format, bytes, at }) => ({ name, format, bytes, at }));
    if (models.length === 0) {
      reporter.result(
        `No model is here. nereid pull NAME fetches one. Looked in ${hub.cacheFolder} and ${store.root}`,
        { models: [] },
      );
      return;
    }
    reporter.result(textTable(["NAME", "FORMAT", "SIZE", "FETCHED"], models.map(rowOf)), { models: fields });
  });
}

function rowOf({ name, format, bytes, modifiedMs, at }: StoredModel): readonly string[] {
  if (format === "name") return [name, `name of ${at}`, "", ""];
  return [name, format, formatBytes(bytes), agoText(modifiedMs)];
}
