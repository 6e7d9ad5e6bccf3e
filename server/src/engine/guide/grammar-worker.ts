/**
 * The process in which the grammar library turns guides into EBNF. It does one at a time. Its parent kills it when one
 * fails or takes too long, because the library does not survive its own errors.
 */
import { randomUUID } from "node:crypto";
import process from "node:process";
import { type SchemaParts, withoutBoundedNumbers } from "./bounded-numbers.ts";
import { boundedTag } from "./bounded-tag.ts";
import { parseEbnf } from "./grammar/parse-ebnf.ts";
import type { GrammarAnswer, GrammarRequest } from "./grammar-messages.ts";
import type { GrammarSource } from "./grammar-source.ts";
import type { Grammar } from "./guide-grammar.ts";
import { loadXGrammar, type XGrammar, type XGrammarText } from "./load-xgrammar.ts";

/** Blanks between two parts of a JSON text: enough to indent, too few for a small model to lose itself in. */
const MAX_WHITESPACE = 16;

/** The library escapes the quotes of these local parts, and no other characters of strings; json-strings.ts escapes all. */
const ESCAPED_QUOTE = String.raw`"\\" "\""`;
const QUOTE = String.raw`"\""`;
const EMAIL_QUOTED = String.raw`${ESCAPED_QUOTE} ( "\\" [ -~] | [ !#-[\]-~] )* ${ESCAPED_QUOTE}`;

class GrammarConverter {
  readonly #xgrammar: XGrammar = loadXGrammar();
  /** In no text of a client. */
  readonly #mark = `@${randomUUID()}@`;

  convert(grammar: Grammar): Promise<GrammarSource> {
    const { Grammar: library } = this.#xgrammar;
    switch (grammar.kind) {
      case "json":
        return this.#printed(library.builtinJSONGrammar(), "root");
      case "json_schema":
        return this.#schema(grammar.text);
      case "ebnf":
        return this.#written(grammar.text);
      case "structural_tag":
        return this.#tag(JSON.parse(grammar.text));
      case "regex":
        return this.#tag({ type: "structural_tag", format: { type: "regex", pattern: grammar.text } });
    }
  }

  async #schema(text: string): Promise<GrammarSource> {
    const schema = tryParse(text);
    // The library says what is wrong with it.
    const ebnf = schema === undefined ? await this.#schemaText(text) : await this.#boundedSchema(schema);
    return { ebnf, isPrinted: false, isSchema: true, root: "root", schemas: [], placeMark: this.#mark };
  }

  async #boundedSchema(schema: unknown): Promise<string> {
    const parts: SchemaParts = withoutBoundedNumbers(schema);
    return parts.complete(await this.#schemaText(JSON.stringify(parts.schema)));
  }

  /** Before the library expands it, which takes it a hundred times longer. */
  async #schemaText(schema: string): Promise<string> {
    const { _jsonSchemaToEBNF: toEbnf } = this.#xgrammar.Testings;
    const ebnf = await toEbnf(schema, true, undefined, undefined, true, MAX_WHITESPACE);
    return ebnf.replaceAll(EMAIL_QUOTED, EMAIL_QUOTED.replaceAll(ESCAPED_QUOTE, QUOTE));
  }

  /** As it is, once the library has found no fault in it; as the library prints it, if this server cannot read it. */
  async #written(ebnf: string): Promise<GrammarSource> {
    const printed = await this.#printed(this.#xgrammar.Grammar.fromEBNF(ebnf), "root");
    try {
      parseEbnf(ebnf, { isPrinted: false });
      return { ...printed, ebnf, isPrinted: false };
    } catch {
      return printed;
    }
  }

  async #tag(tag: unknown): Promise<GrammarSource> {
    const schemas: string[] = [];
    const bounded = await boundedTag(tag, async (schema) => {
      const index = schemas.push(await this.#boundedSchema(schema)) - 1;
      return `root ::= "${this.#mark}${index}${this.#mark}"`;
    });
    return { ...(await this.#printed(this.#xgrammar.Grammar.fromStructuralTag(bounded), undefined)), schemas };
  }

  async #printed(made: Promise<XGrammarText>, root: string | undefined): Promise<GrammarSource> {
    const grammar = await made;
    const ebnf = grammar.toString();
    grammar.dispose();
    return { ebnf, isPrinted: true, isSchema: false, root, schemas: [], placeMark: this.#mark };
  }
}

/** Undefined: no JSON. */
function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The library tells causes through the console and throws without them. */
function captureCauses(): () => string {
  let cause = "";
  const keep = (...parts: unknown[]): void => {
    const fatal = /\[FATAL\] \S+: (.*)/s.exec(parts.join(" "));
    if (fatal?.[1] !== undefined) cause = fatal[1].trim();
  };
  console.error = keep;
  console.warn = keep;
  console.log = keep;
  return () => cause;
}

function main(): void {
  const lastCause = captureCauses();
  const send = (answer: GrammarAnswer): void => {
    process.send?.(answer);
  };
  const fail = (id: number, error: unknown): void => {
    const own = error instanceof Error ? error.message : String(error);
    send({ id, error: lastCause() || own });
  };
  const converter = new GrammarConverter();
  let queue = Promise.resolve(send({ id: 0 }));
  process.on("message", ({ id, grammar }: GrammarRequest) => {
    queue = queue
      .then(() => converter.convert(grammar))
      .then(
        (source) => send({ id, source }),
        (error: unknown) => fail(id, error),
      );
  });
  process.on("disconnect", () => process.exit(0));
}

main();
