/**
 * Errors of a JSON text (RFC 8259). Syntax errors know their offset and use the words of RapidJSON's parser
 * (rapidjson/error/en.h), which Triton's clients know. A document over a limit is an error of its
 * own.
 */

export class JsonSyntaxError extends Error {
  readonly offset: number;

  constructor(reason: string, offset: number) {
    super(`${reason} at ${offset}`);
    this.name = "JsonSyntaxError";
    this.offset = offset;
  }
}

/** A cap of the reader was passed: nesting, members or elements. The document may be valid JSON. */
export class JsonLimitError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "JsonLimitError";
  }
}

/** Reasons in the words of the parser that clients of the V2 protocol know. */
export const JSON_REASON = {
  empty: "The document is empty.",
  trailing: "The document root must not be followed by other values.",
  value: "Invalid value.",
  memberName: "Missing a name for object member.",
  colon: "Missing a colon after a name of object member.",
  memberComma: "Missing a comma or } after an object member.",
  elementComma: "Missing a comma or ] after an array element.",
  hexDigit: "Incorrect hex digit after \\u escape in string.",
  surrogate: "The surrogate pair in string is invalid.",
  escape: "Invalid escape character in string.",
  quote: "Missing a closing quotation mark in string.",
  tooBig: "Number too big to be stored in double.",
  fraction: "Miss fraction part in number.",
  exponent: "Miss exponent in number.",
} as const;
