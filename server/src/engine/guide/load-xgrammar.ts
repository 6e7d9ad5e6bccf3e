/**
 * Loads @mlc-ai/web-xgrammar, whose manifest says ES module while its file is CommonJS: neither `import` nor `require`
 * takes it, so the file is compiled here as what it is. Only what is used of it is typed.
 */
import { readFileSync } from "node:fs";
import Module, { createRequire } from "node:module";

export interface XGrammar {
  readonly Grammar: {
    builtinJSONGrammar(): Promise<XGrammarText>;
    fromEBNF(ebnf: string): Promise<XGrammarText>;
    fromStructuralTag(tag: unknown): Promise<XGrammarText>;
  };
  readonly Testings: {
    /** Without an indent and separators of its own; `isStrict` allows no properties beside those of the schema. */
    _jsonSchemaToEBNF(
      schema: string,
      isAnyWhitespaceAllowed: boolean,
      indent: undefined,
      separators: undefined,
      isStrict: boolean,
      maxWhitespace: number,
    ): Promise<string>;
  };
}

/** `toString` gives EBNF. */
export interface XGrammarText {
  toString(): string;
  dispose(): void;
}

export function loadXGrammar(): XGrammar {
  const path = createRequire(import.meta.url).resolve("@mlc-ai/web-xgrammar");
  // Not in the types of Node, and as old as its loader: what `require` itself compiles a file with.
  const module = new Module(path) as unknown as { exports: XGrammar; _compile(code: string, path: string): void };
  module._compile(readFileSync(path, "utf8"), path);
  return module.exports;
}
