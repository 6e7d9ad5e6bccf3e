/**
 * The process in which grammars are compiled and masks are made. It does one job at a time and knows no requests. Its
 * parent kills it when a job fails or takes too long, because the library does not survive its own errors.
 */
import process from "node:process";
import { readTokenizerFiles } from "../../formats/tokenizer/tokenizer-files.ts";
import { type SchemaParts, withoutBoundedNumbers } from "./bounded-numbers.ts";
import { boundedTag } from "./bounded-tag.ts";
import type { GrammarAnswer, GrammarJob, GrammarRequest, GrammarWorkerData } from "./grammar-messages.ts";
import type { Grammar } from "./guide-grammar.ts";
import { loadXGrammar, type XGrammar, type XGrammarCompiled, type XGrammarCompiler } from "./load-xgrammar.ts";
import { hiddenTokens, type SpecialToken, TokenMatcher } from "./token-matcher.ts";
import { readVocabulary } from "./tokenizer-vocabulary.ts";

/** Blanks between two parts of a JSON text: enough to indent, too few for a small model to lose itself in. */
const MAX_WHITESPACE = 16;
/** Compiled grammars kept for texts to come. */
const MAX_COMPILED = 64;

class GrammarWorker {
  readonly #xgrammar: XGrammar;
  readonly #compiler: XGrammarCompiler;
  /** Least recently used first. */
  readonly #compiled = new Map<string, XGrammarCompiled>();
  readonly #sessions = new Map<number, TokenMatcher>();
  readonly #specials: readonly SpecialToken[];
  readonly #stopId: number;

  constructor(xgrammar: XGrammar, compiler: XGrammarCompiler, specials: readonly SpecialToken[], stopId: number) {
    this.#xgrammar = xgrammar;
    this.#compiler = compiler;
    this.#specials = specials;
    this.#stopId = stopId;
  }

  static async create({ tokenizerDir, vocabSize }: GrammarWorkerData): Promise<GrammarWorker> {
    const xgrammar = loadXGrammar();
    const { tokens, type, specials } = readVocabulary((await readTokenizerFiles(tokenizerDir)).tokenizer);
    const padded = Array.from({ length: vocabSize + 1 }, (_, id) => (id < vocabSize ? (tokens[id] ?? "") : ""));
    const info = await xgrammar.TokenizerInfo.createTokenizerInfo(padded, type, false, padded.length, [vocabSize]);
    const compiler = await xgrammar.GrammarCompiler.createGrammarCompiler(info, false);
    return new GrammarWorker(xgrammar, compiler, specials, vocabSize);
  }

  /** The mask of the next token, for jobs that have one. */
  async run(job: GrammarJob): Promise<Int32Array | undefined> {
    switch (job.op) {
      case "try": {
        const matcher = await this.#match(job);
        await matcher.mask();
        matcher.dispose();
        return undefined;
      }
      case "open": {
        const matcher = await this.#match(job);
        this.#sessions.set(job.session, matcher);
        return matcher.mask();
      }
      case "accept": {
        const matcher = this.#sessions.get(job.session);
        if (matcher?.accept(job.token) !== true) throw new Error(`token ${job.token} does not fit the guide`);
        return matcher.mask();
      }
      case "close":
        this.#sessions.get(job.session)?.dispose();
        this.#sessions.delete(job.session);
        return undefined;
    }
  }

  async #match({ grammar, endIds }: { grammar: Grammar; endIds: readonly number[] }): Promise<TokenMatcher> {
    const compiled = await this.#compile(grammar);
    const matcher = await this.#xgrammar.GrammarMatcher.createGrammarMatcher(compiled, [this.#stopId]);
    return new TokenMatcher(matcher, endIds, hiddenTokens(grammar, this.#specials), this.#stopId);
  }

  async #compile(grammar: Grammar): Promise<XGrammarCompiled> {
    const key = JSON.stringify(grammar);
    const compiled = this.#compiled.get(key) ?? (await this.#compileAnew(grammar));
    this.#compiled.delete(key);
    this.#compiled.set(key, compiled);
    const [oldest] = this.#compiled;
    if (this.#compiled.size > MAX_COMPILED && oldest !== undefined) {
      oldest[1].dispose(); // running sequences keep the parts that they need
      this.#compiled.delete(oldest[0]);
    }
    return compiled;
  }

  async #compileTag(tag: unknown): Promise<XGrammarCompiled> {
    const bounded = await boundedTag(tag, async (schema) => this.#grammarText(withoutBoundedNumbers(schema)));
    return this.#compiler.compileStructuralTag(bounded);
  }

  /** The EBNF of a schema. */
  async #grammarText({ schema, complete }: SchemaParts): Promise<string> {
    const { Grammar } = this.#xgrammar;
    const text = JSON.stringify(schema);
    const grammar = await Grammar.fromJSONSchema(text, true, undefined, undefined, true, MAX_WHITESPACE);
    const ebnf = grammar.toString();
    grammar.dispose();
    return complete(ebnf);
  }

  async #compileSchema(text: string): Promise<XGrammarCompiled> {
    const parts = withoutBoundedNumbers(parsed(text));
    if (parts.hasRanges) return this.#compiler.compileGrammar(await this.#grammarText(parts));
    return this.#compiler.compileJSONSchema(text, true, undefined, undefined, true, MAX_WHITESPACE);
  }

  #compileAnew(grammar: Grammar): Promise<XGrammarCompiled> {
    switch (grammar.kind) {
      case "json":
        return this.#compiler.compileBuiltinJSONGrammar();
      case "json_schema":
        return this.#compileSchema(grammar.text);
      case "ebnf":
        return this.#compiler.compileGrammar(grammar.text);
      case "structural_tag":
        return this.#compileTag(JSON.parse(grammar.text));
      case "regex": {
        const format = { type: "regex", pattern: grammar.text };
        return this.#compiler.compileStructuralTag({ type: "structural_tag", format });
      }
    }
  }
}

/** The library tells what is wrong with a text that is no JSON. */
function parsed(text: string): unknown {
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
  const worker = GrammarWorker.create(JSON.parse(process.argv[2] ?? "{}") as GrammarWorkerData);
  let queue = worker.then(
    () => send({ id: 0 }),
    (error: unknown) => fail(0, error),
  );
  process.on("message", ({ id, job }: GrammarRequest) => {
    queue = queue
      .then(async () => {
        const own = await worker;
        const before = process.cpuUsage();
        const startMs = performance.now();
        const mask = await own.run(job);
        const { user, system } = process.cpuUsage(before);
        // The engine of JavaScript works beside, and others on the same processor: the smaller is what the job took.
        const maskMs = Math.min((user + system) / 1000, performance.now() - startMs);
        return mask === undefined ? { id } : { id, mask, maskMs };
      })
      .then(send, (error: unknown) => fail(id, error));
  });
  process.on("disconnect", () => process.exit(0));
}

main();
