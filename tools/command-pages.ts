/**
 * Writes the tables of flags into docs/commands, between two marks on each page, from what each command's --help says:
 *   node --import tsx --conditions=nereid-source tools/command-pages.ts
 * A test compares the pages with it.
 */
import { execFile } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { LOADER_FLAGS } from "../tests/support/source-loader.ts";

const FOLDER = fileURLToPath(new URL("../docs/commands/", import.meta.url));
const PROGRAM = new URL("../server/src/cli/nereid.ts", import.meta.url).href;
const MARKED = /<!-- flags of nereid (.+?) -->\n[\s\S]*?<!-- end of flags -->/;

export interface HelpFlag {
  readonly names: string;
  readonly summary: string;
}

/** Flags under Options: names from the third column on, then their meaning, on one line or more. */
export function flagsOf(help: string): readonly HelpFlag[] {
  const [, options = ""] = /^Options:\n([\s\S]*?)\n(?:\n|$)/m.exec(help) ?? [];
  const flags: { names: string; summary: string }[] = [];
  for (const line of options.split("\n")) {
    const start = /^ {2}(-.*?)(?: {2,}(\S.*))?$/.exec(line);
    if (start !== null) flags.push({ names: start[1] ?? "", summary: start[2] ?? "" });
    const last = flags.at(-1);
    if (start === null && last !== undefined) last.summary = `${last.summary} ${line.trim()}`.trim();
  }
  return flags;
}

export function flagTable(help: string): string {
  const cell = (text: string): string => text.replaceAll("|", "\\|");
  const rows = flagsOf(help).map(({ names, summary }) => `| \`${cell(names)}\` | ${cell(summary)} |`);
  return ["| flag | |", "|---|---|", ...rows].join("\n");
}

/** Pages with the tables of now, in the order given; undefined for one without marks. */
export async function pagesWithTables(pages: readonly string[]): Promise<readonly (string | undefined)[]> {
  const commands = pages.map((page) => MARKED.exec(page)?.[1]);
  const helps = await helpsOf(commands.filter((command) => command !== undefined));
  return pages.map((page, i) => {
    const command = commands[i];
    if (command === undefined) return undefined;
    const table = flagTable(helps.get(command) ?? "");
    return page.replace(MARKED, () => `<!-- flags of nereid ${command} -->\n${table}\n<!-- end of flags -->`);
  });
}

/** By command. One process asks all of them: to start is most of the work. */
async function helpsOf(commands: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const code = `import { main } from ${JSON.stringify(PROGRAM)};
for (const command of process.argv.slice(1)) {
  await main([...command.split(" "), "--help"]);
  process.stdout.write("\\0");
}`;
  const node = ["--conditions=nereid-source", ...LOADER_FLAGS, "--input-type=module", "-e", code, "--"];
  const { stdout } = await promisify(execFile)(process.execPath, [...node, ...commands]);
  const helps = stdout.split("\0");
  return new Map(commands.map((command, i) => [command, helps[i] ?? ""]));
}

export function commandPages(): readonly string[] {
  return readdirSync(FOLDER)
    .sort()
    .map((name) => join(FOLDER, name));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const paths = commandPages();
  const pages = paths.map((path) => readFileSync(path, "utf8"));
  for (const [i, written] of (await pagesWithTables(pages)).entries()) {
    const path = paths[i];
    if (path !== undefined && written !== undefined && written !== pages[i]) writeFileSync(path, written);
  }
}
