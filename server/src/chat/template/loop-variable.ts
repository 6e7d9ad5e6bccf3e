/** `loop` inside a `for`. Source: Jinja's documentation, "For". */
import { Callable, Namespace, Undefined, type Value } from "./values.ts";

/** One object for each turn; what needs a neighbour is read from the items. */
export function loopVariable(items: readonly Value[], index: number): Value {
  const { length } = items;
  const at = (i: number): Value => (i >= 0 && i < length ? (items[i] ?? null) : new Undefined("loop"));
  return new Namespace(
    new Map<string, Value>([
      ["index", index + 1],
      ["index0", index],
      ["revindex", length - index],
      ["revindex0", length - index - 1],
      ["first", index === 0],
      ["last", index === length - 1],
      ["length", length],
      ["depth", 1],
      ["depth0", 0],
      ["previtem", at(index - 1)],
      ["nextitem", at(index + 1)],
      [
        "cycle",
        new Callable("cycle", ({ positional }) => positional[index % positional.length] ?? new Undefined("cycle")),
      ],
    ]),
  );
}
