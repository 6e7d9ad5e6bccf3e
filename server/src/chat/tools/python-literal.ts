/** Literals of Python, as models write arguments of calls. Source: Python's language reference, "Literals". */

export class PythonLiteralError extends Error {}

/** Reads from the front of a text; `at` is behind what was read. */
export class PythonReader {
  readonly #text: string;
  at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** @throws PythonLiteralError */
  value(): unknown {
    this.space();
    const char = this.#text.charAt(this.at);
    if (char === "'" || char === '"') return this.#string(char);
    if (char === "[") return this.#items("[", "]");
    if (char === "(") return this.#items("(", ")");
    if (char === "{") return this.#dict();
    return this.#scalar();
  }

  word(): string {
    this.space();
    const found = /^[\w.-]+/.exec(this.#text.slice(this.at));
    if (found === null) throw new PythonLiteralError(`expected a name at ${this.at}`);
    this.at += found[0].length;
    return found[0];
  }

  /** Takes a character when it is next. */
  skip(char: string): boolean {
    this.space();
    if (this.#text.charAt(this.at) !== char) return false;
    this.at += 1;
    return true;
  }

  expect(char: string): void {
    if (!this.skip(char)) throw new PythonLiteralError(`expected ${char} at ${this.at}`);
  }

  space(): void {
    while (/\s/.test(this.#text.charAt(this.at))) this.at += 1;
  }

  #items(open: string, close: string): unknown[] {
    this.expect(open);
    const items: unknown[] = [];
    while (!this.skip(close)) {
      items.push(this.value());
      if (!this.skip(",")) {
        this.expect(close);
        break;
      }
    }
    return items;
  }

  #dict(): Readonly<Record<string, unknown>> {
    this.expect("{");
    const entries: [string, unknown][] = [];
    while (!this.skip("}")) {
      const key = String(this.value());
      this.expect(":");
      entries.push([key, this.value()]);
      if (!this.skip(",")) {
        this.expect("}");
        break;
      }
    }
    return Object.fromEntries(entries);
  }

  #string(quote: string): string {
    const [match, body = ""] =
      new RegExp(`^${quote}((?:[^${quote}\\\\]|\\\\[\\s\\S])*)${quote}`).exec(this.#text.slice(this.at)) ?? [];
    if (match === undefined) throw new PythonLiteralError(`a text at ${this.at} does not end`);
    this.at += match.length;
    return body.replace(/\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\s\S])/g, (_, code: string) => unescaped(code));
  }

  #scalar(): unknown {
    const [word] = /^[^\s,\])}]+/.exec(this.#text.slice(this.at)) ?? [];
    if (word === undefined) throw new PythonLiteralError(`expected a value at ${this.at}`);
    this.at += word.length;
    const constant = CONSTANTS.get(word);
    if (constant !== undefined) return constant.value;
    const number = Number(word.replaceAll("_", ""));
    if (Number.isFinite(number)) return number;
    throw new PythonLiteralError(`expected a literal, got ${word}`);
  }
}

const CONSTANTS: ReadonlyMap<string, { readonly value: unknown }> = new Map([
  ["True", { value: true }],
  ["true", { value: true }],
  ["False", { value: false }],
  ["false", { value: false }],
  ["None", { value: null }],
  ["null", { value: null }],
]);

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", "0": "\0", "\n": "" };

function unescaped(code: string): string {
  if (code.length > 1) return String.fromCharCode(Number.parseInt(code.slice(1), 16));
  return ESCAPES[code] ?? code;
}
