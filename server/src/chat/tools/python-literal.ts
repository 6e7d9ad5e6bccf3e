/** Literals of Python, as models write arguments of calls. Source: Python's language reference, "Literals". */

export class PythonLiteralError extends Error {}

/** Reads from the front of a text; `at` is behind what was read. */
export class PythonReader {
  readonly #text: string;
  at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** The next literal as JSON: numbers keep their digits. @throws PythonLiteralError */
  json(): string {
    this.space();
    const char = this.#text.charAt(this.at);
    if (char === "'" || char === '"') return JSON.stringify(this.#string(char));
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

  #items(open: string, close: string): string {
    this.expect(open);
    const items: string[] = [];
    while (!this.skip(close)) {
      items.push(this.json());
      if (!this.skip(",")) {
        this.expect(close);
        break;
      }
    }
    return `[${items.join(", ")}]`;
  }

  #dict(): string {
    this.expect("{");
    const members: string[] = [];
    while (!this.skip("}")) {
      const key = this.json();
      this.expect(":");
      members.push(`${key.startsWith('"') ? key : JSON.stringify(key)}: ${this.json()}`);
      if (!this.skip(",")) {
        this.expect("}");
        break;
      }
    }
    return `{${members.join(", ")}}`;
  }

  #string(quote: string): string {
    const [match, body = ""] =
      new RegExp(`^${quote}((?:[^${quote}\\\\]|\\\\[\\s\\S])*)${quote}`).exec(this.#text.slice(this.at)) ?? [];
    if (match === undefined) throw new PythonLiteralError(`a text at ${this.at} does not end`);
    this.at += match.length;
    return body.replace(/\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\s\S])/g, (_, code: string) => unescaped(code));
  }

  #scalar(): string {
    const [word] = /^[^\s,\])}]+/.exec(this.#text.slice(this.at)) ?? [];
    if (word === undefined) throw new PythonLiteralError(`expected a value at ${this.at}`);
    this.at += word.length;
    if (JSON_NUMBER.test(word)) return word;
    const number = Number(word.replaceAll("_", ""));
    const text = CONSTANTS[word] ?? (Number.isFinite(number) ? String(number) : undefined);
    if (text !== undefined) return text;
    throw new PythonLiteralError(`expected a literal, got ${word}`);
  }
}

/** RFC 8259, section 6. */
const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/;
const CONSTANTS: Readonly<Record<string, string>> = {
  True: "true",
  true: "true",
  False: "false",
  false: "false",
  None: "null",
  null: "null",
};

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", "0": "\0", "\n": "" };

function unescaped(code: string): string {
  if (code.length > 1) return String.fromCharCode(Number.parseInt(code.slice(1), 16));
  return ESCAPES[code] ?? code;
}
