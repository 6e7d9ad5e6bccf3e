/** One row of the table of tool formats: data alone, from which both the grammar and the parser are made. */

interface CallMarks {
  /** Begins a call, or a list of calls; also where the grammar takes over. */
  readonly open: string;
  /** Ends it; "" where the end of the JSON does. */
  readonly close: string;
}

/** `open {"name": "f", "arguments": {...}} close`. */
export interface JsonObjectForm extends CallMarks {
  readonly kind: "json-object";
  readonly nameKey: string;
  readonly argumentsKey: string;
  /** White space between mark and object, as the model writes it. */
  readonly gap: string;
}

/** `open [{"name": "f", "arguments": {...}}, ...] close`. */
export interface JsonListForm extends CallMarks {
  readonly kind: "json-list";
  readonly nameKey: string;
  readonly argumentsKey: string;
}

/** `open f middle {...} close`. */
export interface NamedJsonForm extends CallMarks {
  readonly kind: "named-json";
  /** Written before the name: `functions.`. */
  readonly namePrefix: string;
  /** Written behind the name, `#` stands for the index of the call; the parser drops what follows the mark. */
  readonly nameSuffix: string;
  /** Separates name and arguments; white space beside it is optional. */
  readonly middle: string;
}

/** `open f nameEnd (parameterOpen k parameterMiddle v parameterClose)* close`. */
export interface ParametersForm extends CallMarks {
  readonly kind: "parameters";
  readonly nameEnd: string;
  readonly parameterOpen: string;
  readonly parameterMiddle: string;
  readonly parameterClose: string;
  /** Written around each value and no part of it: "\n" or "". */
  readonly padding: string;
  /** Written between two parameters and at both ends. */
  readonly gap: string;
}

/** `open [f(k=v, ...), ...] close`, with literals of Python. */
export interface PythonicForm extends CallMarks {
  readonly kind: "pythonic";
}

export type CallForm = JsonObjectForm | JsonListForm | NamedJsonForm | ParametersForm | PythonicForm;

export interface ToolRow {
  readonly name: string;
  readonly form: CallForm;
  /** Written around all calls of an answer. */
  readonly section?: { readonly open: string; readonly close: string };
  /** Tokens of the vocabulary that the parser must see. */
  readonly specialTokens: readonly string[];
  /** Letters and digits of a call's identifier; templates of Mistral ask for nine. */
  readonly idLength?: number;
}
