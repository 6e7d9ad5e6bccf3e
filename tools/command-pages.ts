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

const FOLDER = fileURLToPath(new URL("../docs/commands/", import.meta.url));
const PROGRAM = new URL("../server/src/cli/nereid.ts", import.meta.url).href;
const MARKED = /<!-- flags of nereid (.+?) -->\n[\s\S]*?<!-- end of flags -->/;

export interface HelpFlag {
  readonly names: string;
  readonly summary: string;
}

/** What stands under Options: names from the third column on, and behind them what they mean, on one line or more. */
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

/** A page with the table of now; undefined for one without marks. */
export async function pageWithTable(page: string): Promise<string | undefined> {
  const command = MARKED.exec(page)?.[1];
  if (command === undefined) return undefined;
  const table = flagTable(await helpOf(command));
  return page.replace(MARKED, () => `<!-- flags of nereid ${command} -->\n${table}\n<!-- end of flags -->`);
}

async function helpOf(command: string): Promise<string> {
  const code = `import { main } from ${JSON.stringify(PROGRAM)}; await main(process.argv.slice(1));`;
  const node = ["--conditions=nereid-source", "--import", "tsx", "--input-type=module", "-e", code, "--"];
  return (await promisify(execFile)(process.execPath, [...node, ...command.split(" "), "--help"])).stdout;
}

export function commandPages(): readonly string[] {
  return readdirSync(FOLDER)
    .sort()
    .map((name) => join(FOLDER, name));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  for (const path of commandPages()) {
    const page = readFileSync(path, "utf8");
    const written = await pageWithTable(page);
    if (written !== undefined && written !== page) writeFileSync(path, written);
  }
}
