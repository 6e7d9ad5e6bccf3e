/**
 * Finds in the text of a Markdown page whatever points into the repository: relative links, anchors, and paths in backticks.
 * Headings become anchors as GitHub makes them. Reads no file.
 */

export interface Reference {
  readonly line: number;
  readonly kind: "link" | "path";
  /** Link: the target as written. Path: the text between the backticks. */
  readonly target: string;
}

export interface Line {
  readonly number: number;
  readonly text: string;
}

/** CommonMark 4.5: a fence ends with as many of the same characters as it began with. */
export function linesOutsideFences(page: string): readonly Line[] {
  const lines: Line[] = [];
  let fence: string | undefined;
  for (const [index, text] of page.split("\n").entries()) {
    const [, marks] = /^\s*(`{3,}|~{3,})/.exec(text) ?? [];
    if (fence === undefined && marks !== undefined) fence = marks;
    else if (fence !== undefined && marks?.startsWith(fence) === true) fence = undefined;
    else if (fence === undefined) lines.push({ number: index + 1, text });
  }
  return lines;
}

const CODE = /(`+)(.+?)\1(?!`)/g;
const LINK = /\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|^\s*\[[^\]]+\]:\s+<?(\S+?)>?\s*$|\b(?:href|src)="([^"]+)"/g;

export function referencesIn(page: string): readonly Reference[] {
  return linesOutsideFences(page).flatMap(({ number, text }) => {
    const paths = [...text.matchAll(CODE)].map(([, , code = ""]) => ({
      line: number,
      kind: "path" as const,
      target: code,
    }));
    const links = [...text.replace(CODE, "").matchAll(LINK)].map(([, inline, named, html]) => ({
      line: number,
      kind: "link" as const,
      target: inline ?? named ?? html ?? "",
    }));
    return [...links, ...paths];
  });
}

/** Lower case, without punctuation, spaces as hyphens; the second of two equal headings ends with -1. */
export function anchorsOf(page: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  const counts = new Map<string, number>();
  for (const { text } of linesOutsideFences(page)) {
    for (const [, id = ""] of text.matchAll(/<a (?:id|name)="([^"]+)"/g)) anchors.add(id);
    const [, heading] = /^#{1,6}\s+(.+?)\s*#*\s*$/.exec(text) ?? [];
    if (heading === undefined) continue;
    const slug = slugOf(heading);
    const count = counts.get(slug) ?? 0;
    counts.set(slug, count + 1);
    anchors.add(count === 0 ? slug : `${slug}-${count}`);
  }
  return anchors;
}

function slugOf(heading: string): string {
  return heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{Pc}\- ]/gu, "")
    .replaceAll(" ", "-");
}
