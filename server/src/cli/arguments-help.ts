/** The text of `--help`, made from a command's table of flags. Pure. */
import type { CommandSyntax, Flag, FlagTable, Positional } from "./arguments.ts";
import { longName } from "./arguments.ts";

const NAME_COLUMN = 30;
const LINE_WIDTH = 110;

export function helpText(syntax: CommandSyntax<FlagTable>): string {
  const positionals = syntax.positionals ?? [];
  const usage = [
    "nereid",
    syntax.command,
    ...requiredFlags(syntax.flags),
    "[options]",
    ...positionals.map(positionalText),
  ];
  const sections = [`Usage: ${usage.join(" ")}`, wrap(syntax.description, 0)];
  if (positionals.length > 0) {
    sections.push(["Arguments:", ...positionals.map(({ name, summary }) => row(`<${name}>`, summary))].join("\n"));
  }
  const groups = new Map<string, string[]>();
  for (const [name, flag] of Object.entries(syntax.flags)) {
    if (flag.hidden === true) continue;
    const heading = flag.group ?? "Options";
    groups.set(heading, [...(groups.get(heading) ?? []), row(flagText(name, flag), summaryText(flag))]);
  }
  groups.set("Options", [...(groups.get("Options") ?? []), row("-h, --help", "show this text")]);
  for (const [heading, rows] of groups) sections.push([`${heading}:`, ...rows].join("\n"));
  if (syntax.examples !== undefined) {
    sections.push(["Examples:", ...syntax.examples.map((example) => `  ${example}`)].join("\n"));
  }
  return `${sections.join("\n\n")}\n`;
}

function requiredFlags(flags: FlagTable): string[] {
  const required = Object.entries(flags).filter(([, flag]) => flag.required === true);
  return required.map(([name, flag]) => `${longName(name)} ${valueName(flag)}`);
}

function positionalText({ name, optional, many }: Positional): string {
  const text = `<${name}>${many === true ? "..." : ""}`;
  return optional === true ? `[${text}]` : text;
}

function flagText(name: string, flag: Flag): string {
  const short = flag.short === undefined ? "" : `-${flag.short}, `;
  const value = flag.type === "switch" ? "" : ` ${valueName(flag)}${flag.many === "list" ? "..." : ""}`;
  return `${short}${longName(name)}${value}`;
}

function valueName({ value, type }: Flag): string {
  if (value !== undefined) return value;
  return type === "string" ? "TEXT" : "N";
}

function summaryText({ summary, choices, default: byDefault, many, required }: Flag): string {
  const notes: string[] = [];
  if (choices !== undefined) notes.push(`one of ${choices.join(", ")}`);
  if (byDefault !== undefined) notes.push(`default ${byDefault}`);
  if (many === "repeated") notes.push("may be given several times");
  if (required === true) notes.push("required");
  return notes.length === 0 ? summary : `${summary} (${notes.join("; ")})`;
}

function row(name: string, summary: string): string {
  const left = `  ${name}`;
  const indent = " ".repeat(NAME_COLUMN);
  const text = wrap(summary, NAME_COLUMN);
  return left.length + 1 < NAME_COLUMN ? `${left.padEnd(NAME_COLUMN)}${text}` : `${left}\n${indent}${text}`;
}

/** Lines after the first begin at column `indent`. */
function wrap(text: string, indent: number): string {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + word.length + 1 > LINE_WIDTH - indent) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line].join(`\n${" ".repeat(indent)}`);
}
