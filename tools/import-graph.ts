/**
 * The graph of imports between the sources of a workspace, types included, and its cycles (Tarjan 1972, "Depth-First Search
 * and Linear Graph Algorithms"); the folders that hold too many sources. Reads no file.
 */
import { posix } from "node:path";

const IMPORT = /(?:^|[\s;])(?:import|export)\b[^"';]*?from\s*["']([^"']+)["']|\bimport\s*\(?\s*["']([^"']+)["']/g;
/** `@nereid/<package>/<module>`: a module of another package of this workspace. */
const WORKSPACE_MODULE = /^@nereid\/([^/]+)\/(.+)$/;

/** Specifiers of all imports and exports of a module, of types as well, in order. */
export function importsOf(text: string): readonly string[] {
  return [...text.matchAll(IMPORT)].map(([, from, bare]) => from ?? bare ?? "");
}

/** Path in the workspace that a specifier names; undefined for Node's modules and packages from elsewhere. */
export function importedPath(file: string, specifier: string): string | undefined {
  if (specifier.startsWith(".")) return posix.join(posix.dirname(file), specifier);
  const [, name, module] = WORKSPACE_MODULE.exec(specifier) ?? [];
  if (name === undefined || module === undefined) return undefined;
  return module.startsWith("kernels/") ? `${name}/${module}.ts` : `${name}/src/${module}.ts`;
}

/** Files by path, and the files that each imports. `sources`: text by path. */
export function importGraph(sources: ReadonlyMap<string, string>): ReadonlyMap<string, readonly string[]> {
  const graph = new Map<string, readonly string[]>();
  for (const [file, text] of sources) {
    const targets = importsOf(text).map((specifier) => importedPath(file, specifier));
    graph.set(
      file,
      targets.filter((target): target is string => target !== undefined && sources.has(target)),
    );
  }
  return graph;
}

/** Groups of files that import each other, directly or not, each sorted; a file that imports itself is a group too. */
export function importCycles(graph: ReadonlyMap<string, readonly string[]>): readonly (readonly string[])[] {
  const search = new CycleSearch(graph);
  for (const file of graph.keys()) search.visit(file);
  return search.cycles;
}

interface Visited {
  readonly index: number;
  low: number;
  isOpen: boolean;
}

class CycleSearch {
  readonly cycles: string[][] = [];
  readonly #graph: ReadonlyMap<string, readonly string[]>;
  readonly #visited = new Map<string, Visited>();
  readonly #open: string[] = [];

  constructor(graph: ReadonlyMap<string, readonly string[]>) {
    this.#graph = graph;
  }

  /** Recursive: chains of imports are short. */
  visit(file: string): Visited {
    const known = this.#visited.get(file);
    if (known !== undefined) return known;
    const own: Visited = { index: this.#visited.size, low: this.#visited.size, isOpen: true };
    this.#visited.set(file, own);
    this.#open.push(file);
    for (const target of this.#graph.get(file) ?? []) {
      const found = this.visit(target);
      if (found.isOpen) own.low = Math.min(own.low, found.low);
    }
    if (own.low === own.index) this.#close(file);
    return own;
  }

  /** Takes the group that began with `file` off the stack. */
  #close(file: string): void {
    const group = this.#open.splice(this.#open.indexOf(file));
    for (const member of group) (this.#visited.get(member) as Visited).isOpen = false; // on the stack: visited
    if (group.length > 1 || this.#graph.get(file)?.includes(file) === true) this.cycles.push(group.sort());
  }
}

/** Folders with more than `max` of these files, by their number at that level. */
export function fullFolders(files: Iterable<string>, max: number): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const file of files) counts.set(posix.dirname(file), (counts.get(posix.dirname(file)) ?? 0) + 1);
  return new Map([...counts].filter(([, count]) => count > max));
}
