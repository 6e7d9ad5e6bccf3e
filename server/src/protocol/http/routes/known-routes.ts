/** Caches the routes of a few frequent paths. Source: own design. */
import { matchRoute, type RouteMatch } from "./router.ts";

/** Anybody may ask for any path: so much is remembered at most, then it begins anew. */
const MAX_PATHS = 512;
const MAX_PATH_LENGTH = 256;

export class KnownRoutes {
  readonly #matches = new Map<string, RouteMatch>();

  match(path: string): RouteMatch | undefined {
    return this.#matches.get(path) ?? this.#find(path);
  }

  #find(path: string): RouteMatch | undefined {
    if (path.length > MAX_PATH_LENGTH) return matchRoute(path);
    // The engine keeps the whole text that a part was cut from: here the address, with as long a query as anybody likes.
    const own = Buffer.from(path).toString();
    const match = matchRoute(own);
    if (match === undefined) return match;
    if (this.#matches.size === MAX_PATHS) this.#matches.clear();
    this.#matches.set(own, match);
    return match;
  }
}
