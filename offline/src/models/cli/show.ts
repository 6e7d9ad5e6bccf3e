/** `nereid show NAME`: the facts of a model that is here. */
import type { CommandSyntax, FlagTable } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { formatBytes } from "@nereid/server/files/progress-text";
import { ToolError } from "@nereid/server/files/tool-error";
import { describeModel } from "../prepare/describe-model.ts";
import { resolveModel } from "../resolve/resolve-model.ts";
import { NAME_ARGUMENT, resolveContext } from "./model-flags.ts";

const FLAGS = {
  template: { type: "switch", summary: "print the chat template alone" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "show",
  description: "Shows architecture, size, types, context and template of a model that is here. Uses no network.",
  flags: FLAGS,
  positionals: [NAME_ARGUMENT],
  examples: ["nereid show ./model.gguf", "nereid show org/model --template"],
};

export async function showCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, positionals, reporter, signal }) => {
    const [name = ""] = positionals;
    const model = await resolveModel(name, resolveContext({ offline: true }, { reporter, signal }));
    if (model.kind === "repository") {
      throw new ToolError(`${model.path} is a model repository`, {
        fix: `nereid doctor --all ${model.path} describes its models`,
      });
    }
    const facts = await describeModel(model.path);
    const { chatTemplate } = facts;
    if (values.template) {
      if (chatTemplate === undefined) throw new ToolError(`${name} has no chat template`);
      reporter.result(chatTemplate, { template: chatTemplate });
      return;
    }
    const rows = [
      ["model", name],
      ["files", model.path],
      ["architecture", facts.architecture],
      ["parameters", facts.numParameters.toLocaleString("en-US")],
      ["weights", `${facts.weightTypes.join(", ")} (${formatBytes(facts.weightBytes)})`],
      ["context", `${facts.contextLength} tokens`],
      ["chat template", chatTemplate === undefined ? "none" : `${chatTemplate.length} characters`],
      ...Object.entries(model.sampling ?? {}).map(([key, value]) => [key, String(value)]),
    ];
    const text = rows.map(([key = "", value]) => `${key.padEnd(15)}${value}`).join("\n");
    reporter.result(text, { name, path: model.path, ...facts });
  });
}
