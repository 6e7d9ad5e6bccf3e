/**
 * Loads @mlc-ai/web-xgrammar, whose manifest says ES module while its file is CommonJS: neither `import` nor `require`
 * takes it, so the file is compiled here as what it is. Only what is used of it is typed.
 */
import { readFileSync } from "node:fs";
import Module, { createRequire } from "node:module";

export interface XGrammar {
  readonly TokenizerInfo: {
    createTokenizerInfo(
      vocabulary: readonly string[],
      vocabularyType: "byte_level" | "byte_fallback" | "raw",
      prependSpace: boolean,
      vocabularySize: number,
      stopTokenIds: readonly number[],
    ): Promise<unknown>;
  };
  readonly Grammar: {
    /** As `compileJSONSchema`. */
    fromJSONSchema(
      schema: string,
      isAnyWhitespaceAllowed: boolean,
      indent: undefined,
      separators: undefined,
      isStrict: boolean,
      maxWhitespace: number,
    ): Promise<XGrammarText>;
  };
  readonly GrammarCompiler: { createGrammarCompiler(info: unknown, isCaching: boolean): Promise<XGrammarCompiler> };
  readonly GrammarMatcher: {
    createGrammarMatcher(grammar: XGrammarCompiled, stopTokenIds: readonly number[]): Promise<XGrammarMatcher>;
  };
}

export interface XGrammarCompiler {
  compileBuiltinJSONGrammar(): Promise<XGrammarCompiled>;
  /** Without an indent and separators of its own; `isStrict` allows no properties beside those of the schema. */
  compileJSONSchema(
    schema: string,
    isAnyWhitespaceAllowed: boolean,
    indent: undefined,
    separators: undefined,
    isStrict: boolean,
    maxWhitespace: number,
  ): Promise<XGrammarCompiled>;
  compileGrammar(ebnf: string): Promise<XGrammarCompiled>;
  compileStructuralTag(tag: unknown): Promise<XGrammarCompiled>;
}

/** `toString` gives EBNF. */
export interface XGrammarText {
  toString(): string;
  dispose(): void;
}

export interface XGrammarCompiled {
  dispose(): void;
}

export interface XGrammarMatcher {
  acceptToken(token: number): boolean;
  getNextTokenBitmask(): Promise<Int32Array>;
  dispose(): void;
}

export function loadXGrammar(): XGrammar {
  const path = createRequire(import.meta.url).resolve("@mlc-ai/web-xgrammar");
  // Not in the types of Node, and as old as its loader: what `require` itself compiles a file with.
  const module = new Module(path) as unknown as { exports: XGrammar; _compile(code: string, path: string): void };
  module._compile(readFileSync(path, "utf8"), path);
  return module.exports;
}
