/**
 * A chat template: messages to a prompt, as transformers' `apply_chat_template` renders it. Source: transformers' guide
 * "Chat templates"; Jinja's documentation. The syntax is parsed by `@huggingface/jinja`, evaluated here: with Python's meaning,
 * which templates rely on, within a budget, and without access to anything but the data of the messages.
 */
import { invalidArgument } from "../../core/server-error.ts";
import type { ChatTemplate, TemplateVariables } from "../chat-contract.ts";
import { parseTemplate, type Statement } from "./ast.ts";
import { Budget } from "./budget.ts";
import { templateGlobals } from "./globals.ts";
import { Output, runBody } from "./run.ts";
import { Scope } from "./scope.ts";
import { TemplateError } from "./template-error.ts";
import { fromJson, type Value } from "./values.ts";

export interface TemplateSource {
  /** Jinja text. */
  readonly text: string;
  readonly bosToken?: string | undefined;
  readonly eosToken?: string | undefined;
  /** Further special tokens by their names in the tokenizer's configuration: `pad_token`, `unk_token`. */
  readonly tokens?: Readonly<Record<string, string>> | undefined;
  /** Time of `strftime_now`; the present by default. */
  readonly now?: (() => Date) | undefined;
}

/** @throws ServerError invalid_argument when it cannot be parsed */
export function createTemplate(source: TemplateSource): ChatTemplate {
  const body = withRefusal(() => parseTemplate(source.text));
  const tokens = { ...source.tokens, bos_token: source.bosToken ?? "", eos_token: source.eosToken ?? "" };
  return {
    // A refusal is a rejection, never an exception.
    render: (variables) =>
      Promise.resolve().then(() => withRefusal(() => render(body, { ...tokens, ...named(variables) }, source.now?.()))),
  };
}

function named({ addGenerationPrompt, ...variables }: TemplateVariables): Readonly<Record<string, unknown>> {
  return { tools: null, documents: null, ...variables, add_generation_prompt: addGenerationPrompt };
}

function render(body: readonly Statement[], variables: Readonly<Record<string, unknown>>, now = new Date()): string {
  const budget = new Budget();
  const values = Object.entries(variables)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]): readonly [string, Value] => [name, fromJson(value)]);
  const output = new Output(budget);
  const scope = new Scope(templateGlobals(now, budget)).inner(values);
  runBody(body, scope, output, budget);
  return output.text();
}

/** A stack that overflows is a template that nests too deeply. */
function withRefusal<Result>(run: () => Result): Result {
  try {
    return run();
  } catch (error) {
    if (error instanceof TemplateError) throw invalidArgument(error.message);
    if (error instanceof RangeError) throw invalidArgument("the chat template nests too deeply");
    throw error;
  }
}
