/** Judges licence expressions of the SPDX syntax against a set of allowed licences. Knows nothing of packages. */

/** Licences that ask for no more than their notice. */
export const ALLOWED_LICENSES: ReadonlySet<string> = new Set([
  "0BSD",
  "Apache-2.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "BlueOak-1.0.0",
  "CC0-1.0",
  "ISC",
  "MIT",
  "MIT-0",
  "PostgreSQL",
  "Python-2.0",
  "Unlicense",
  "Zlib",
]);

const TOKEN = /\s*([()]|[A-Za-z0-9.+-]+)\s*/y;

/** True when the expression lets its user choose only allowed licences; what is no SPDX expression is not allowed. */
export function isAllowedLicense(expression: string, allowed: ReadonlySet<string> = ALLOWED_LICENSES): boolean {
  const tokens = tokensOf(expression);
  if (tokens === undefined) return false;
  const reader = new ExpressionReader(tokens, allowed);
  const verdict = reader.alternatives();
  return verdict === true && reader.isAtEnd();
}

function tokensOf(expression: string): string[] | undefined {
  const tokens: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < expression.length) {
    const token = TOKEN.exec(expression)?.[1];
    if (token === undefined) return undefined;
    tokens.push(token);
  }
  return tokens;
}

/** OR binds weakest, then AND, then WITH. An answer of undefined means a fault of syntax. */
class ExpressionReader {
  readonly #tokens: readonly string[];
  readonly #allowed: ReadonlySet<string>;
  #position = 0;

  constructor(tokens: readonly string[], allowed: ReadonlySet<string>) {
    this.#tokens = tokens;
    this.#allowed = allowed;
  }

  isAtEnd(): boolean {
    return this.#position === this.#tokens.length;
  }

  alternatives(): boolean | undefined {
    let verdict = this.#conjunction();
    while (verdict !== undefined && this.#take("OR")) {
      const next = this.#conjunction();
      verdict = next === undefined ? undefined : verdict || next;
    }
    return verdict;
  }

  #conjunction(): boolean | undefined {
    let verdict = this.#single();
    while (verdict !== undefined && this.#take("AND")) {
      const next = this.#single();
      verdict = next === undefined ? undefined : verdict && next;
    }
    return verdict;
  }

  #single(): boolean | undefined {
    if (this.#take("(")) {
      const verdict = this.alternatives();
      return this.#take(")") ? verdict : undefined;
    }
    const license = this.#name();
    if (license === undefined) return undefined;
    // An exception only ever gives more rights than the licence it is added to.
    if (this.#take("WITH") && this.#name() === undefined) return undefined;
    return this.#allowed.has(license);
  }

  #name(): string | undefined {
    const token = this.#tokens[this.#position];
    if (token === undefined || /^(?:[()]|AND|OR|WITH)$/.test(token)) return undefined;
    this.#position += 1;
    return token;
  }

  #take(token: string): boolean {
    if (this.#tokens[this.#position] !== token) return false;
    this.#position += 1;
    return true;
  }
}
