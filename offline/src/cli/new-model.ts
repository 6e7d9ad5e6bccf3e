/** `nereid new-model`: a runnable TypeScript model as a starting point. */
import { dirname } from "node:path";
import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { MODEL_KINDS, newModel } from "../repository/typescript/new-model.ts";

const FLAGS = {
  kind: {
    type: "string",
    choices: MODEL_KINDS,
    default: "plain",
    summary: "one answer for each request, a stream of answers, or a state kept from request to request",
  },
  force: { type: "switch", summary: "replace the folder if it is there already" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "new-model",
  description:
    "Writes a model in TypeScript to begin with: config.pbtxt, 1/model.ts and the types of its inputs and outputs. Nothing has to be built or installed to serve it.",
  flags: FLAGS,
  positionals: [{ name: "folder", summary: "of the model: <repository>/<model>" }],
  examples: ["nereid new-model models/hello", "nereid new-model models/words --kind stream"],
};

export async function newModelCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, positionals, reporter }) => {
    const [folder] = positionals;
    if (folder === undefined)
      throw new UsageError("<folder> is missing: where the model is to be, such as models/hello");
    const files = await newModel(folder, values.kind, values.force);
    const repository = dirname(folder);
    const next = `nereid serve --model-repository=${repository} --model-control-mode=poll   # changes are served as you save them`;
    reporter.result([...files.map((file) => `wrote ${file}`), next].join("\n"), { files });
  });
}
