/** The syntax tree of a template, as `@huggingface/jinja` parses it. Source: Jinja's "Template Designer Documentation". */
import { parse, tokenize } from "@huggingface/jinja";
import { TemplateError } from "./template-error.ts";

export interface Identifier {
  readonly type: "Identifier";
  readonly value: string;
}

export interface KeywordArgument {
  readonly type: "KeywordArgumentExpression";
  readonly key: Identifier;
  readonly value: Expression;
}

export interface Call {
  readonly type: "CallExpression";
  readonly callee: Expression;
  readonly args: readonly Argument[];
}

export interface TupleLiteral {
  readonly type: "TupleLiteral";
  readonly value: readonly Expression[];
}

export interface Slice {
  readonly type: "SliceExpression";
  readonly start: Expression | undefined;
  readonly stop: Expression | undefined;
  readonly step: Expression | undefined;
}

export interface Member {
  readonly type: "MemberExpression";
  readonly object: Expression;
  readonly property: Expression | Slice;
  /** `a[b]`; else `a.b`. */
  readonly computed: boolean;
}

export type Argument =
  | Expression
  | KeywordArgument
  | { readonly type: "SpreadExpression"; readonly argument: Expression }
  | { readonly type: "KeywordSpreadExpression"; readonly argument: Expression };

export type Expression =
  | Identifier
  | Call
  | TupleLiteral
  | Member
  | { readonly type: "IntegerLiteral" | "FloatLiteral"; readonly value: number }
  | { readonly type: "StringLiteral"; readonly value: string }
  | { readonly type: "ArrayLiteral"; readonly value: readonly Expression[] }
  | { readonly type: "ObjectLiteral"; readonly value: ReadonlyMap<Expression, Expression> }
  | {
      readonly type: "BinaryExpression";
      readonly operator: { readonly value: string };
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly type: "UnaryExpression"; readonly operator: { readonly value: string }; readonly argument: Expression }
  | { readonly type: "FilterExpression"; readonly operand: Expression; readonly filter: Identifier | Call }
  | { readonly type: "SelectExpression"; readonly lhs: Expression; readonly test: Expression }
  | {
      readonly type: "TestExpression";
      readonly operand: Expression;
      readonly negate: boolean;
      readonly test: Identifier | Call;
    }
  | {
      readonly type: "Ternary";
      readonly condition: Expression;
      readonly trueExpr: Expression;
      readonly falseExpr: Expression;
    };

export type Parameter = Identifier | KeywordArgument;

export interface ForLoop {
  readonly type: "For";
  readonly loopvar: Identifier | TupleLiteral;
  readonly iterable: Expression;
  readonly body: readonly Statement[];
  readonly defaultBlock: readonly Statement[];
}

export interface SetStatement {
  readonly type: "Set";
  readonly assignee: Expression;
  readonly value: Expression | null;
  readonly body: readonly Statement[];
}

export interface MacroStatement {
  readonly type: "Macro";
  readonly name: Identifier;
  readonly args: readonly Parameter[];
  readonly body: readonly Statement[];
}

export interface CallStatement {
  readonly type: "CallStatement";
  readonly call: Call;
  readonly callerArgs: readonly Parameter[] | null;
  readonly body: readonly Statement[];
}

export type Statement =
  | Expression
  | ForLoop
  | SetStatement
  | MacroStatement
  | CallStatement
  | {
      readonly type: "If";
      readonly test: Expression;
      readonly body: readonly Statement[];
      readonly alternate: readonly Statement[];
    }
  | { readonly type: "FilterStatement"; readonly filter: Identifier | Call; readonly body: readonly Statement[] }
  | { readonly type: "Break" | "Continue" }
  | { readonly type: "Comment"; readonly value: string };

/** transformers' settings: a line break behind a block goes, and so does white space before one. @throws TemplateError */
export function parseTemplate(source: string): readonly Statement[] {
  try {
    const program: unknown = parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
    return (program as { readonly body: readonly Statement[] }).body;
  } catch (error) {
    throw new TemplateError(`the template cannot be parsed: ${error instanceof Error ? error.message : String(error)}`);
  }
}
