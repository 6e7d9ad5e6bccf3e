/** `nereid rm NAME`: removes models from this user's caches. It says first what other programs would miss. */
import process from "node:process";
import { createInterface } from "node:readline/promises";
import type { CommandSyntax, FlagTable } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { formatBytes } from "@nereid/server/files/progress-text";
import { ToolError } from "@nereid/server/files/tool-error";
import type { ResolveContext } from "../resolve/resolved-model.ts";
import { runningServers } from "../store/running-servers.ts";
import { removePrepared, type StoredModel, storedModels } from "../store/stored-models.ts";
import { resolveContext } from "./model-flags.ts";

const FLAGS = {
  yes: { type: "switch", short: "y", summary: "do not ask, also where other programs use the files" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "rm",
  description:
    "Removes models by the names of nereid list. Files in the cache of the Hugging Face hub are shared with its other tools: they are removed after a question, or with --yes.",
  flags: FLAGS,
  positionals: [{ name: "name", summary: "as nereid list shows it", many: true }],
  examples: ["nereid rm org/model", "nereid rm org/model:Q4_K_M --yes"],
};

export async function rmCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, positionals, reporter, signal }) => {
    const context = resolveContext({}, { reporter, signal });
    const all = await storedModels(context.store, context.hub);
    const chosen = positionals.map((name) => find(name, all, context));
    const shared = chosen.filter(({ isShared }) => isShared);
    if (shared.length > 0 && !values.yes) await expectConsent(shared, context);
    for (const model of chosen) {
      await model.remove();
      if (model.format !== "name") await removePrepared(context.store, model.at);
    }
    const lines = chosen.map(
      ({ name, bytes, format }) => `Removed ${name}${format === "name" ? "" : ` (${formatBytes(bytes)})`}`,
    );
    reporter.result(lines.join("\n"), { removed: chosen.map(({ name }) => name) });
  });
}

function find(name: string, all: readonly StoredModel[], { store }: ResolveContext): StoredModel {
  const plain = name.replace(/^(?:hf\.co\/|huggingface\.co\/|hf:(?:\/\/)?)/, "").toLowerCase();
  const tagged = name.includes("/") || name.includes(":") ? name : `${name}:latest`;
  const found =
    all.find((model) => model.name === name || model.name === tagged) ??
    all.find((model) => model.name.toLowerCase() === plain);
  if (found === undefined) {
    throw new ToolError(`There is no model '${name}' in the caches`, {
      fix:
        all.length === 0
          ? "They hold no model: folders and files of your own are yours to remove"
          : "nereid list shows their names; folders and files of your own are yours to remove",
    });
  }
  const server = runningServers(store).find((each) => each.name === name);
  if (server !== undefined)
    throw new ToolError(`${name} is served by process ${server.pid}`, { fix: `nereid stop ${name}` });
  const second = all.find((model) => model.format === "name" && model.at === found.name);
  if (second !== undefined)
    throw new ToolError(`'${second.name}' stands for ${name}`, { fix: `nereid rm ${second.name}, before it` });
  return found;
}

/** @throws ToolError when nobody can be asked, or says no */
async function expectConsent(shared: readonly StoredModel[], { hub, reporter }: ResolveContext): Promise<void> {
  const lines = shared.map(({ name, format, bytes, at }) => {
    const extent = format === "safetensors" ? " with all files of its repository" : "";
    return `  ${name}${extent}, ${formatBytes(bytes)}: ${at}`;
  });
  const text = `Other tools of the Hugging Face hub use these files too:\n${lines.join("\n")}`;
  if (!process.stdin.isTTY) throw new ToolError(`${text}\nNothing was removed`, { fix: "Give --yes to remove them" });
  reporter.info(text);
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await asking.question(`Remove them from ${hub.cacheFolder}? [y/N] `);
    if (!/^y(?:es)?$/i.test(answer.trim())) throw new ToolError("Nothing was removed");
  } finally {
    asking.close();
  }
}
