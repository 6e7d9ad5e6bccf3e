/**
 * Placeholders in a text, `$name` and `${name}`, with the semantics of Python's `string.Template.safe_substitute`. `$$`
 * is one dollar, unknown names stay, values are not expanded again. Pure.
 */

/** `$$`, `$name`, `${name}`, or a plain dollar. Names are ASCII, of any case. */
const DOLLAR = /\$(?:(\$)|([_a-z][_a-z0-9]*)|\{([_a-z][_a-z0-9]*)\}|)/gi;

export interface Placeholder {
  readonly name: string;
  /** As written: `$name` or `${name}`. */
  readonly written: string;
  /** From 1. */
  readonly line: number;
  /** Inside quotes a remaining placeholder is text; elsewhere it stands for a number, a boolean or a type. */
  readonly isQuoted: boolean;
}

/** Fills placeholders with values. */
export function fillPlaceholders(text: string, values: ReadonlyMap<string, string>): string {
  return text.replace(DOLLAR, (written: string, escaped?: string, named?: string, braced?: string) => {
    if (escaped !== undefined) return "$";
    const name = named ?? braced;
    return name === undefined ? written : (values.get(name) ?? written);
  });
}

/** All placeholders in order, except in comments, which need no value. */
export function findPlaceholders(text: string): Placeholder[] {
  return text.split("\n").flatMap((line, index) => placeholdersOfLine(line, index + 1));
}

function placeholdersOfLine(line: string, number: number): Placeholder[] {
  const found: Placeholder[] = [];
  const comment = commentStart(line);
  for (const match of line.matchAll(DOLLAR)) {
    const name = match[2] ?? match[3];
    if (name === undefined || match.index >= comment) continue;
    found.push({ name, written: match[0], line: number, isQuoted: isInsideQuotes(line, match.index) });
  }
  return found;
}

function commentStart(line: string): number {
  for (let index = line.indexOf("#"); index !== -1; index = line.indexOf("#", index + 1)) {
    if (!isInsideQuotes(line, index)) return index;
  }
  return line.length;
}

function isInsideQuotes(line: string, end: number): boolean {
  let quote = "";
  for (let index = 0; index < end; index++) {
    const character = line[index] ?? "";
    if (quote !== "" && character === "\\") index++;
    else if (quote === character) quote = "";
    else if (quote === "" && (character === '"' || character === "'")) quote = character;
  }
  return quote !== "";
}
