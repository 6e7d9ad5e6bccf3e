/**
 * The grammar of an answer with tools, as a structural tag of xgrammar. Text is free until a call begins; from there on
 * the form of the call and the schema of its arguments hold. Source: xgrammar's documentation, "Structural Tag".
 */

import { isObject, type JsonObject as Schema } from "../../core/json-object.ts";
import { MAX_LLM_GUIDE_CHARS } from "../../core/limits.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { ChatTool, InputGrammars, OutputGuide, ToolChoice } from "../chat-contract.ts";
import type { InputGrammar } from "../input-grammar/input-grammar.ts";
import type { CallForm, NamedJsonForm, ParametersForm, ToolRow } from "./tool-row.ts";

type Format = Readonly<Record<string, unknown>> & { readonly type: string };
type Tag = Format & { readonly type: "tag"; readonly begin: string };

const ANY_OBJECT: Schema = { type: "object" };
const ANY_TEXT: Format = { type: "any_text" };
/** The library takes no empty text and no empty expression. */
const NOTHING: Format = { type: "grammar", grammar: 'root ::= ""' };

/** Reasoning that the answer begins with, before calls that are required. */
export interface OpenReasoning {
  /** "" when the prompt has opened it. */
  readonly open: string;
  readonly close: string;
}

export interface ToolGrammarOptions {
  readonly reasoning?: OpenReasoning | undefined;
  readonly inputs?: InputGrammars | undefined;
}

interface GuidedTool extends ChatTool {
  /** Holds in place of the schema. */
  readonly input: InputGrammar | undefined;
}

/** Undefined: nothing to constrain. */
export function toolGrammar(
  row: ToolRow,
  tools: readonly ChatTool[],
  choice: ToolChoice,
  isParallel: boolean,
  { reasoning, inputs }: ToolGrammarOptions = {},
): OutputGuide | undefined {
  const offered = typeof choice === "object" ? tools.filter(({ function: { name } }) => name === choice.name) : tools;
  if (choice === "none" || offered.length === 0) return undefined;
  const allowed = offered.map((tool): GuidedTool => ({ ...tool, input: inputs?.get(tool.function.name) }));
  const isRequired = choice !== "auto";
  // One call by name is one call.
  const calls = callsFormat(row, allowed, isRequired, isParallel && typeof choice !== "object");
  const format = isRequired && reasoning !== undefined ? after(reasoning, calls) : calls;
  return { type: "structural_tag", text: JSON.stringify({ type: "structural_tag", format }) };
}

function after({ open, close }: OpenReasoning, calls: Format): Format {
  return sequence(tag(open, ANY_TEXT, close), { type: "regex", pattern: "\\n{0,2}" }, calls);
}

/** Free text around the calls when none is required; else calls and nothing else. */
function callsFormat(row: ToolRow, tools: readonly GuidedTool[], isRequired: boolean, isParallel: boolean): Format {
  const { section, form } = row;
  if (section !== undefined) {
    const gap = form.kind === "parameters" ? form.gap : "";
    const all = tag(section.open, callsInRow(form, tools, isParallel, gap), gap + section.close);
    return isRequired ? all : triggered([all], section.open.trim(), false);
  }
  if (isRequired) return callsInRow(form, tools, isParallel, separatorOf(form));
  return triggered(tagsOf(form, tools, isParallel), triggerOf(form), isParallel && !isList(form));
}

/**
 * One call or several and nothing else. The grammar holds each schema once: copies for the places of several calls take
 * seconds to compile.
 */
function callsInRow(form: CallForm, tools: readonly GuidedTool[], isParallel: boolean, gap: string): Format {
  const tags = tagsOf(form, tools, isParallel);
  if (!isParallel || isList(form)) return either(...tags);
  if (gap !== "") return separated(tags, gap, true);
  // The library takes no empty separator: the mark that opens each call stands for it.
  const { open } = form;
  const rests = tags.map((each) => ({ ...each, begin: each.begin.slice(open.length) }));
  return sequence({ type: "const_string", value: open }, separated(rests, open, true));
}

/** Between two calls, as models write it. */
function separatorOf(form: CallForm): string {
  if (form.kind === "json-object") return form.open === "" ? "; " : "\n";
  return form.kind === "parameters" ? form.gap : "";
}

/** One tag holds all calls of an answer. */
function isList(form: CallForm): boolean {
  return form.kind === "json-list" || form.kind === "pythonic";
}

function triggerOf({ open, ...form }: CallForm): string {
  if (open.trim() !== "") return open.trim();
  return form.kind === "pythonic" ? "[" : '{"name"';
}

function triggered(tags: readonly Tag[], trigger: string, isParallel: boolean): Format {
  return { type: "triggered_tags", triggers: [trigger], tags, at_least_one: false, stop_after_first: !isParallel };
}

function separated(tags: readonly Tag[], separator: string, isParallel: boolean): Format {
  return { type: "tags_with_separator", tags, separator, at_least_one: true, stop_after_first: !isParallel };
}

function tagsOf(form: CallForm, tools: readonly GuidedTool[], isParallel: boolean): readonly Tag[] {
  switch (form.kind) {
    case "json-object":
      return tools.map((tool) => objectTag(tool, form, form.open + form.gap, form.gap + form.close));
    case "json-list": {
      const calls = tools.map((tool) => objectTag(tool, form, "", ""));
      return [tag(`${form.open}[`, separated(calls, ", ", isParallel), `]${form.close}`)];
    }
    case "named-json":
      return tools.map((tool) => namedTag(tool, form));
    case "parameters":
      return tools.map((tool) => parametersTag(tool, form));
    case "pythonic": {
      const calls = tools.map((tool) => tag(`${nameOf(tool)}(`, pythonArguments(tool), ")"));
      return [tag(`${form.open}[`, separated(calls, ", ", isParallel), `]${form.close}`)];
    }
  }
}

function objectTag(
  tool: GuidedTool,
  { nameKey, argumentsKey }: { readonly nameKey: string; readonly argumentsKey: string },
  open: string,
  close: string,
): Tag {
  const begin = `${open}{"${nameKey}": ${JSON.stringify(nameOf(tool))}, "${argumentsKey}": `;
  return tag(begin, argumentsFormat(tool), `}${close}`);
}

/** `#` in the suffix stands for the number of the call. */
function namedTag(tool: GuidedTool, form: NamedJsonForm): Tag {
  const { open, namePrefix, nameSuffix, middle, close } = form;
  const [suffix = "", behindNumber] = nameSuffix.split("#");
  const head = open + namePrefix + nameOf(tool) + suffix;
  const value = argumentsFormat(tool);
  if (behindNumber === undefined) return tag(head + middle, value, close);
  const number: Format = { type: "regex", pattern: "[0-9]{1,2}" };
  return tag(head, sequence(number, { type: "const_string", value: behindNumber + middle }, value), close);
}

/** Required parameters in the order of the schema, each other one where it stands, or not. */
function parametersTag(tool: GuidedTool, form: ParametersForm): Tag {
  const { open, nameEnd, parameterOpen, parameterMiddle, parameterClose, padding, gap, close } = form;
  const begin = open + nameOf(tool) + nameEnd + (nameEnd.endsWith(gap) ? "" : gap);
  const parameters = propertiesOf(schemaOf(tool)).map(({ name, schema, isRequired }) => {
    const value = tool.input === undefined ? bareFormat(schema) : grammarFormat(tool.input.plain);
    const one = tag(parameterOpen + name + parameterMiddle + padding, value, padding + parameterClose + gap);
    return isRequired ? one : either(one, NOTHING);
  });
  return tag(begin, sequence(...parameters), close);
}

/** Literals of JSON, which the parser takes beside Python's. Optional arguments in their order, up to any of them. */
function pythonArguments(tool: GuidedTool): Format {
  if (tool.input !== undefined) return tag("input=", grammarFormat(tool.input.jsonString), "");
  const properties = propertiesOf(schemaOf(tool));
  const required = properties.filter(({ isRequired }) => isRequired);
  const optional = properties.filter(({ isRequired }) => !isRequired);
  const one = (name: string, value: Schema, isFirst: boolean): Format =>
    sequence({ type: "const_string", value: `${isFirst ? "" : ", "}${name}=` }, jsonFormat(value));
  const rest = optional.reduceRight<Format>((tail, { name, schema: value }, i) => {
    return either(sequence(one(name, value, required.length + i === 0), tail), NOTHING);
  }, NOTHING);
  return sequence(...required.map(({ name, schema: value }, i) => one(name, value, i === 0)), rest);
}

interface Property {
  readonly name: string;
  readonly schema: Schema;
  readonly isRequired: boolean;
}

/** Each property becomes a schema of its own. */
function propertiesOf(schema: Schema): readonly Property[] {
  const properties = Object.entries(isObject(schema.properties) ? schema.properties : {});
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const numReferring = properties.filter(([, property]) => hasReference(property)).length;
  const definitions = numReferring === 0 ? undefined : wholeSchema(schema, numReferring);
  return properties.map(([name, property]) => {
    const own = isObject(property) ? property : {};
    return { name, schema: standalone(own, definitions), isRequired: required.has(name) };
  });
}

/** References of a part lead into the whole schema, which it takes along as a definition. RFC 6901, 6. */
function standalone(part: Schema, $defs: Schema | undefined): Schema {
  if ($defs === undefined || !hasReference(part)) return part;
  return { ...Object(withReferencesTo(WHOLE, part)), $defs };
}

/** @throws ServerError when its copies are longer than any guide */
function wholeSchema(schema: Schema, numCopies: number): Schema {
  const numChars = JSON.stringify(schema).length * numCopies;
  if (numChars <= MAX_LLM_GUIDE_CHARS) return { [WHOLE]: withReferencesTo(WHOLE, schema) };
  const found = `${numCopies} parameters with references need ${numChars} characters of schema`;
  throw invalidArgument(`tools: ${found}, expected at most ${MAX_LLM_GUIDE_CHARS}`);
}

const WHOLE = "nereid_arguments";

function hasReference(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([key, each]) => key === "$ref" || hasReference(each));
}

function withReferencesTo(definition: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((each) => withReferencesTo(definition, each));
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, each]) => {
    const isLocal = key === "$ref" && typeof each === "string" && each.startsWith("#");
    return [key, isLocal ? `#/$defs/${definition}${each.slice(1)}` : withReferencesTo(definition, each)] as const;
  });
  return Object.fromEntries(entries);
}

function bareFormat(schema: Schema): Format {
  return schema.type === "string" ? bareText(schema) : jsonFormat(schema);
}

/** Text without quotes: it ends where the mark behind it begins. */
function bareText({ enum: values, const: value, pattern, minLength, maxLength }: Schema): Format {
  const fixed = value === undefined ? values : [value];
  if (Array.isArray(fixed) && fixed.every((one) => typeof one === "string" && one !== "")) {
    return either(...fixed.map((one): Format => ({ type: "const_string", value: one })));
  }
  const anchored = typeof pattern === "string" ? /^\^(.*)\$$/s.exec(pattern)?.[1] : undefined;
  if (anchored !== undefined) return { type: "regex", pattern: anchored };
  if (typeof minLength !== "number" && typeof maxLength !== "number") return ANY_TEXT;
  return { type: "regex", pattern: `[^<]{${minLength ?? 0},${maxLength ?? ""}}` };
}

function nameOf(tool: GuidedTool): string {
  return tool.function.name;
}

function schemaOf(tool: GuidedTool): Schema {
  return tool.function.parameters ?? ANY_OBJECT;
}

function argumentsFormat(tool: GuidedTool): Format {
  return tool.input === undefined ? jsonFormat(schemaOf(tool)) : grammarFormat(tool.input.jsonObject);
}

function grammarFormat(grammar: string): Format {
  return { type: "grammar", grammar };
}

function jsonFormat(schema: Schema): Format {
  return { type: "json_schema", json_schema: schema };
}

function tag(begin: string, content: Format, end: string): Tag {
  return { type: "tag", begin, content, end };
}

function sequence(...elements: readonly Format[]): Format {
  return elements.length === 0 ? NOTHING : { type: "sequence", elements };
}

function either(...elements: readonly Format[]): Format {
  return { type: "or", elements };
}
