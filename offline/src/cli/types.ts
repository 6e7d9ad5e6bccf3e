/** `nereid types`: TypeScript types of models, for their clients or beside models in TypeScript. */

import { existsSync, readFileSync } from "node:fs";
import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { type CommandContext, type OUTPUT_FLAGS, runCommand } from "@nereid/server/cli/run-command";
import { writeFileAtomically } from "@nereid/server/files/atomic-output";
import { clientTypes } from "../repository/client-types/client-types.ts";
import { describeRepository, describeServed } from "../repository/client-types/describe-models.ts";
import { writeTypes } from "../repository/typescript/write-types.ts";

const FLAGS = {
  output: {
    type: "string",
    short: "o",
    value: "FILE",
    summary: "write the types of all models for their clients there; of a URL without it: on stdout",
  },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "types",
  description:
    "Writes TypeScript types. From the URL of a server, or with --output from repositories: names, datatypes and shapes of all models, which @nereid/client checks. Else model-types.d.ts beside every model of backend typescript, from its config.pbtxt.",
  flags: FLAGS,
  positionals: [
    { name: "source", summary: "URL of a server, or a folder that holds a folder for each model", many: true },
  ],
  examples: [
    "nereid types http://localhost:8000 --output models.ts",
    "nereid types model_repository --output models.ts",
    "nereid types model_repository",
  ],
};

type Context = CommandContext<typeof FLAGS & typeof OUTPUT_FLAGS>;

export async function typesCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async (context) => {
    const { values, positionals } = context;
    const [first, ...others] = positionals;
    if (first === undefined) throw new UsageError("<source> is missing: the URL of a server, or where the models are");
    if (isUrl(first)) {
      if (others.length > 0) throw new UsageError("one URL, or any number of repositories");
      await typesOfServer(first, context);
    } else if (values.output === undefined) await typesBesideModels(context);
    else await typesOfRepositories(values.output, context);
  });
}

function isUrl(source: string): boolean {
  return /^https?:\/\//.test(source);
}

async function typesOfServer(url: string, { values, reporter, signal }: Context): Promise<void> {
  const { models } = await describeServed(url, signal);
  const text = clientTypes(models);
  if (values.output === undefined) reporter.result(text.trimEnd(), { types: text });
  else await write(values.output, text, reporter);
}

async function typesOfRepositories(output: string, { positionals, reporter }: Context): Promise<void> {
  const described = await Promise.all(positionals.map(describeRepository));
  for (const name of described.flatMap(({ undescribed }) => undescribed)) {
    reporter.warn(`model '${name}' declares no tensors in its config.pbtxt: left out; the URL of a server has them`);
  }
  await write(output, clientTypes(described.flatMap(({ models }) => models)), reporter);
}

async function write(path: string, text: string, reporter: Context["reporter"]): Promise<void> {
  const isNew = !existsSync(path) || readFileSync(path, "utf8") !== text;
  if (isNew) await writeFileAtomically(path, text);
  reporter.result(`${isNew ? "wrote" : "up to date:"} ${path}`, { path, isNew });
}

async function typesBesideModels({ positionals, reporter }: Context): Promise<void> {
  const written = (await Promise.all(positionals.map(writeTypes))).flat();
  const lines = written.map(({ path, isNew }) => `${isNew ? "wrote" : "up to date:"} ${path}`);
  const none = `no model of backend typescript in ${positionals.join(", ")}; --output FILE writes types for clients`;
  reporter.result(lines.length === 0 ? none : lines.join("\n"), { files: written });
}
