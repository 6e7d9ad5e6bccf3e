/**
 * The parts of JSON that many readers and writers share: the test of an object, values within error messages, and unsigned 64-bit
 * settings. These are kept as numbers, for above 2^53 they mean "unlimited", and the largest of all is common (RFC 8259, section 6).
 */

export type JsonObject = Readonly<Record<string, unknown>>;

/** Neither null nor an array. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const MAX_UINT64 = 2n ** 64n - 1n;
/** The number that the largest value rounds to. */
const ROUNDED_MAX = 2 ** 64;
/** No text of a configuration contains it. */
const MARK = "\0uint64:";

/** All digits: those of the largest value, or those of the number. */
export function uint64Text(value: number): string {
  return value === ROUNDED_MAX ? String(MAX_UINT64) : BigInt(value).toString();
}

/** `JSON.stringify` with all digits of whole numbers above 2^53 up to 2^64. */
export function jsonWithUint64(value: unknown): string {
  let isMarked = false;
  const text = JSON.stringify(value, (_, member: unknown) => {
    if (typeof member !== "number" || member <= Number.MAX_SAFE_INTEGER || member > ROUNDED_MAX) return member;
    isMarked = true;
    return MARK + uint64Text(member);
  });
  return isMarked ? text.replace(/"\\u0000uint64:(\d+)"/g, "$1") : text;
}

const DEFAULT_CHARS = 60;

/**
 * JSON of an untrusted value within an error message: up to so many characters, with three dots where more follows; "nothing" for
 * undefined. Never throws: `JSON.stringify` overflows the stack where JSON nests deeply, and `String` fails for `{"toString": 1}`.
 */
export function shownValue(value: unknown, maxChars: number = DEFAULT_CHARS): string {
  if (value === undefined) return "nothing";
  const writer = new BoundedWriter(maxChars);
  writer.write(value);
  return writer.text();
}

class BoundedWriter {
  readonly #maxChars: number;
  #text = "";

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  text(): string {
    return this.#text.length > this.#maxChars ? `${this.#text.slice(0, this.#maxChars)}...` : this.#text;
  }

  /** Each level writes a character before the next, so the depth is bounded as the text is. */
  write(value: unknown): void {
    if (Array.isArray(value)) this.#array(value);
    else if (typeof value === "object" && value !== null) this.#object(value);
    else if (typeof value === "string") this.#text += JSON.stringify(value.slice(0, this.#maxChars + 1));
    else this.#text += String(value);
  }

  get #isFull(): boolean {
    return this.#text.length > this.#maxChars;
  }

  #array(items: readonly unknown[]): void {
    this.#text += "[";
    for (let i = 0; i < items.length && !this.#isFull; i += 1) {
      if (i > 0) this.#text += ",";
      this.write(items[i] ?? null);
    }
    this.#text += "]";
  }

  #object(members: object): void {
    this.#text += "{";
    let isFirst = true;
    for (const name in members) {
      if (this.#isFull || !Object.hasOwn(members, name)) break;
      this.#text += `${isFirst ? "" : ","}${JSON.stringify(name.slice(0, this.#maxChars + 1))}:`;
      isFirst = false;
      this.write((members as Record<string, unknown>)[name]);
    }
    this.#text += "}";
  }
}
