/** Names that a place of a template sees. Loops and macros have scopes of their own; `if` has none. */
import { Undefined, type Value } from "./values.ts";

export class Scope {
  readonly #names: Map<string, Value>;
  readonly #outer: Scope | undefined;

  constructor(names: Iterable<readonly [string, Value]>, outer?: Scope) {
    this.#names = new Map(names);
    this.#outer = outer;
  }

  get(name: string): Value {
    let scope: Scope | undefined = this;
    while (scope !== undefined) {
      const value = scope.#names.get(name);
      if (value !== undefined) return value;
      scope = scope.#outer;
    }
    return new Undefined(name);
  }

  /** Sets a name in this scope only: names set in a loop are gone after the turn. */
  set(name: string, value: Value): void {
    this.#names.set(name, value);
  }

  inner(names: Iterable<readonly [string, Value]> = []): Scope {
    return new Scope(names, this);
  }
}
