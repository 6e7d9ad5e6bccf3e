/** `nereid fill-template`: the command line of Triton's fill_template.py, with checks. */
import process from "node:process";
import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import type { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import { type FilledTemplate, listKeys, type TemplateKey } from "../template/fill-template.ts";
import {
  type FilledFile,
  fillFile,
  readTemplate,
  templateFiles,
  writeFilled,
} from "../template/fill-template-files.ts";

const FLAGS = {
  in_place: { type: "switch", short: "i", summary: "write the result into the file itself" },
  output: {
    type: "string",
    short: "o",
    value: "FILE",
    summary: "write the result into another file; without -i and -o it goes to stdout",
  },
  strict: { type: "switch", summary: "fail, and write nothing, when a key is unknown or a placeholder stays unfilled" },
  list: {
    type: "switch",
    short: "l",
    summary: "list the placeholders with their lines and defaults, and fill nothing",
  },
  participant_ids: { type: "string", hidden: true, summary: "of one release of the stock script", value: "IDS" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "fill-template",
  description:
    "Fills the placeholders of a config.pbtxt, those in braces and those without, as tools/fill_template.py does. Values may hold colons, commas and paths. A folder stands for all configurations of a model repository.",
  flags: FLAGS,
  positionals: [
    { name: "file", summary: "a config.pbtxt, or a model repository" },
    { name: "key:value,key:value", summary: "what to fill in", optional: true },
  ],
  examples: [
    "nereid fill-template -i repo/preprocessing/config.pbtxt tokenizer_dir:/models/llama,triton_max_batch_size:16",
    "nereid fill-template --list repo",
  ],
};

export async function fillTemplateCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, positionals, reporter }) => {
    const [path = "", substitutions] = positionals;
    const files = await templateFiles(path);
    if (values.list) return list(files, reporter);
    if (substitutions === undefined)
      throw new UsageError("<key:value,key:value> is missing: what to fill in, or --list");
    const target = targetOf(values, files);
    const entries = values.participant_ids === undefined ? "" : `,participant_ids:${values.participant_ids}`;
    const filled = await Promise.all(files.map((file) => fillFile(file, `${substitutions}${entries}`)));
    const unknown = unknownTo(filled);
    if (values.strict) refuse(filled, unknown);
    tell(filled, unknown, reporter);
    if (target !== undefined) for (const file of filled) await writeFilled(file, target(file.path));
    report(filled, unknown, reporter, target !== undefined);
  });
}

/** Output path of a file; undefined: stdout. @throws UsageError */
function targetOf(
  { in_place: inPlace, output }: { readonly in_place: boolean; readonly output: string | undefined },
  files: readonly string[],
): ((path: string) => string) | undefined {
  if (inPlace && output !== undefined) throw new UsageError("--in_place and --output exclude each other");
  if (files.length > 1 && !inPlace) throw new UsageError("the folder holds several configurations: give --in_place");
  if (inPlace) return (path) => path;
  return output === undefined ? undefined : () => output;
}

async function list(files: readonly string[], reporter: Reporter): Promise<void> {
  const found: { file: string; keys: TemplateKey[] }[] = [];
  for (const file of files) found.push({ file, keys: listKeys(await readTemplate(file)) });
  const text = found.map(({ file, keys }) => [file, ...keys.map(keyText)].join("\n")).join("\n");
  reporter.result(text, { files: found });
}

function keyText({ name, lines, byDefault, kind }: TemplateKey): string {
  const unset = kind === "text" ? "not set" : "the field's default";
  return `  ${name.padEnd(36)} line ${lines.join(", ").padEnd(12)} unfilled: ${byDefault ?? unset}`;
}

/** A key is known when any of the files has it. */
function unknownTo(files: readonly FilledFile[]): FilledTemplate["unknown"] {
  const [first, ...others] = files.map(({ unknown }) => unknown);
  return (first ?? []).filter(({ key }) => others.every((unknown) => unknown.some((each) => each.key === key)));
}

function refuse(files: readonly FilledFile[], unknown: FilledTemplate["unknown"]): void {
  const [wrong] = unknown;
  if (wrong !== undefined) {
    throw new ToolError(`${files.map(({ path }) => path).join(", ")}: ${unknownText(wrong)}`, {
      fix: "See --list for the keys that there are; nothing was written",
    });
  }
  for (const { path, unfilled } of files) {
    const [left] = unfilled;
    if (left === undefined) continue;
    const names = [...new Set(unfilled.map(({ name }) => name))].join(", ");
    throw new ToolError(`${unfilled.length} placeholders stay unfilled: ${names}`, {
      at: { file: path, line: left.line },
      fix: "Give them values, or leave --strict out; nothing was written",
    });
  }
}

function tell(files: readonly FilledFile[], unknown: FilledTemplate["unknown"], reporter: Reporter): void {
  for (const each of unknown) reporter.warn(unknownText(each));
  for (const { path, warnings, unfilled } of files) {
    for (const warning of warnings) reporter.warn(`${path}: ${warning}`);
    if (unfilled.length === 0) continue;
    const places = unfilled.map(({ name, line }) => `${name} (line ${line})`);
    reporter.info(`${path}: unfilled, so their defaults hold: ${places.join(", ")}`);
  }
}

function report(
  files: readonly FilledFile[],
  unknown: FilledTemplate["unknown"],
  reporter: Reporter,
  isWritten: boolean,
): void {
  const summary = files.map(({ path, filled, unfilled, text }) => ({
    file: path,
    filled,
    unfilled: unfilled.map(({ name, line }) => ({ name, line })),
    ...(isWritten ? {} : { text }),
  }));
  if (isWritten || reporter.mode === "json")
    reporter.result("", { files: summary, unknown: unknown.map(({ key }) => key) });
  else for (const { text } of files) process.stdout.write(`${text}\n`); // with the newline of print()
}

function unknownText({ key, nearest }: FilledTemplate["unknown"][number]): string {
  return `there is no placeholder '${key}'${nearest === undefined ? "" : `; did you mean '${nearest}'?`}`;
}
