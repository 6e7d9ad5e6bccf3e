/**
 * One metrics page out of those of several processes: each series gets the label `worker`, and a family stands once
 * (Prometheus exposition format, text version 0.0.4). Pages are those of MetricRegistry.
 */

/** A worker's number, and its page. */
export type WorkerPage = readonly [worker: number, page: string];

interface Family {
  /** Lines of help and type. */
  readonly head: string;
  series: string;
}

/** A single page stays as it is. */
export function mergePages(pages: readonly WorkerPage[], numWorkers: number): string {
  if (numWorkers === 1) return pages[0]?.[1] ?? "";
  const families = new Map<string, Family>();
  for (const [worker, page] of pages) addPage(families, `worker="${worker}"`, page);
  return [...families.values()].map(({ head, series }) => head + series).join("");
}

function addPage(families: Map<string, Family>, label: string, page: string): void {
  // Each family begins with its help.
  for (const text of page.split(/^(?=# HELP )/m)) {
    const [help = "", type = "", ...lines] = text.split("\n");
    const name = help.split(" ")[2] ?? "";
    if (name === "") continue;
    const family = families.get(name) ?? { head: `${help}\n${type}\n`, series: "" };
    families.set(name, family);
    for (const line of lines) if (line !== "") family.series += `${withLabel(line, label)}\n`;
  }
}

/** `name{a="b"} 1` or `name 1`, with one label more, in front. */
function withLabel(line: string, label: string): string {
  const nameEnd = line.search(/[{ ]/);
  const name = line.slice(0, nameEnd);
  return line[nameEnd] === "{"
    ? `${name}{${label},${line.slice(nameEnd + 1)}`
    : `${name}{${label}}${line.slice(nameEnd)}`;
}
