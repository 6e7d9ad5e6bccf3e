/**
 * Finds the route of a path. Fixed paths are looked up, paths with parts in braces are compared. Pure.
 * Source: RFC 6570, 1.2 (level 1), own design for the rest.
 */
import type { ApiRoute } from "./route.ts";

export interface RouteFound {
  readonly routes: readonly ApiRoute[];
  readonly params: ReadonlyMap<string, string>;
  /** The path is known only as "the rest" of `{name*}`, over several segments: other methods do not know it. */
  readonly isRest: boolean;
}

interface Pattern {
  readonly expression: RegExp;
  readonly names: readonly string[];
  readonly routes: ApiRoute[];
}

const NO_PARAMS: ReadonlyMap<string, string> = new Map();

export class RouteTable {
  readonly #fixed = new Map<string, ApiRoute[]>();
  readonly #patterns = new Map<string, Pattern>();

  constructor(routes: readonly ApiRoute[]) {
    for (const route of routes) this.#add(route);
  }

  /** All methods of the path; undefined: no such path. */
  find(path: string): RouteFound | undefined {
    const routes = this.#fixed.get(path);
    if (routes !== undefined) return { routes, params: NO_PARAMS, isRest: false };
    for (const { expression, names, routes: found } of this.#patterns.values()) {
      const match = expression.exec(path);
      if (match === null) continue;
      const params = new Map(names.map((name, i) => [name, tryDecode(match[i + 1] ?? "")]));
      const isRest = match.slice(1).some((value) => value.includes("/"));
      return { routes: found, params, isRest };
    }
    return undefined;
  }

  #add(route: ApiRoute): void {
    if (!route.path.includes("{")) {
      const known = this.#fixed.get(route.path);
      if (known === undefined) this.#fixed.set(route.path, [route]);
      else known.push(route);
      return;
    }
    const known = this.#patterns.get(route.path);
    if (known === undefined) this.#patterns.set(route.path, patternOf(route));
    else known.routes.push(route);
  }
}

function patternOf(route: ApiRoute): Pattern {
  const names: string[] = [];
  const source = route.path.replaceAll(/\{(\w+)(\*?)\}|[.+?^$()|[\]\\]/g, (text, name?: string, rest?: string) => {
    if (name === undefined) return `\\${text}`;
    names.push(name);
    return rest === "*" ? "(.+)" : "([^/]+)";
  });
  return { expression: new RegExp(`^${source}$`), names, routes: [route] };
}

/** Broken escapes stay as they are. */
function tryDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
