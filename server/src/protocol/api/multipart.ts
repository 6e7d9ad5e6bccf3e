/**
 * Parts of a `multipart/form-data` body, read as they come and never held whole.
 * Sources: RFC 2046, 5.1.1 for the delimiters; RFC 7578, 4.2 for names; WHATWG URL, "multipart/form-data encoding".
 */
import { type ApiError, invalidRequest } from "./api-error.ts";

export interface FormPart {
  readonly name: string;
  /** Undefined: a field, not a file. */
  readonly fileName: string | undefined;
  /** To be read to its end before the next part. @throws ApiError for a body that ends early */
  readonly content: AsyncIterable<Uint8Array>;
}

/** A delimiter has at most 70 characters (RFC 2046, 5.1.1); clients send longer ones. */
const MAX_BOUNDARY = 256;
const MAX_PART_HEAD_BYTES = 16_384;
const MAX_PARTS = 64;
const LINE_END = Buffer.from("\r\n");
const HEAD_END = Buffer.from("\r\n\r\n");
const FORM_TYPE = /^multipart\/form-data\s*;(.*)$/is;
const BOUNDARY = /(?:^|;)\s*boundary=(?:"([^"]+)"|([^\s;]+))/i;
const DISPOSITION = /^content-disposition:\s*form-data\s*;(.*)$/im;
const NAME = /(?:^|;)\s*name="([^"]*)"/i;
const FILE_NAME = /(?:^|;)\s*filename="([^"]*)"/i;
const ESCAPED: ReadonlyMap<string, string> = new Map([
  ["%22", '"'],
  ["%0D", "\r"],
  ["%0A", "\n"],
]);

/** Undefined: not a form. */
export function boundaryOf(contentType: string): string | undefined {
  const [, parameters = ""] = FORM_TYPE.exec(contentType) ?? [];
  const [, quoted, plain] = BOUNDARY.exec(parameters) ?? [];
  const boundary = quoted ?? plain;
  return boundary === undefined || boundary.length > MAX_BOUNDARY ? undefined : boundary;
}

/** @throws ApiError for a body that is no form */
export async function* readForm(body: AsyncIterable<Uint8Array>, boundary: string): AsyncGenerator<FormPart, void> {
  const chunks = body[Symbol.asyncIterator]();
  const reader = new DelimitedReader(chunks);
  try {
    yield* readParts(reader, Buffer.from(`\r\n--${boundary}`));
  } finally {
    await chunks.return?.();
  }
}

async function* readParts(reader: DelimitedReader, delimiter: Buffer): AsyncGenerator<FormPart, void> {
  for await (const piece of reader.until(delimiter)) void piece; // the preamble means nothing
  for (let numParts = 0; !(await isLast(reader)); numParts++) {
    if (numParts === MAX_PARTS) throw malformed(`more than ${MAX_PARTS} parts`);
    yield { ...readHead(await reader.short(HEAD_END)), content: reader.until(delimiter) };
  }
}

/** Two hyphens behind the delimiter close the form; else its line ends, and the part's head begins. */
async function isLast(reader: DelimitedReader): Promise<boolean> {
  const behind = await reader.peek(2);
  return behind === "--";
}

function readHead(head: string): Omit<FormPart, "content"> {
  const [, parameters] = DISPOSITION.exec(head) ?? [];
  const name = parameters === undefined ? undefined : NAME.exec(parameters)?.[1];
  if (parameters === undefined || name === undefined) throw malformed("a part without a name");
  const fileName = FILE_NAME.exec(parameters)?.[1];
  return { name: unescapeName(name), fileName: fileName === undefined ? undefined : unescapeName(fileName) };
}

function unescapeName(text: string): string {
  return text.replace(/%(?:22|0D|0A)/g, (escaped) => ESCAPED.get(escaped) ?? escaped);
}

function malformed(what: string): ApiError {
  return invalidRequest(null, "invalid_multipart_form_data", `The multipart form data cannot be read: ${what}.`);
}

/** Bytes up to a delimiter. Holds one chunk and the length of the delimiter. */
class DelimitedReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  /** The first delimiter has no line in front. */
  #held: Buffer = LINE_END;

  constructor(chunks: AsyncIterator<Uint8Array>) {
    this.#chunks = chunks;
  }

  async *until(delimiter: Buffer): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      const at = this.#held.indexOf(delimiter);
      const numSafe = at >= 0 ? at : this.#held.length - delimiter.length + 1;
      if (numSafe > 0) {
        const piece = this.#held.subarray(0, numSafe);
        this.#held = this.#held.subarray(numSafe);
        yield piece;
      }
      if (at >= 0) {
        this.#held = this.#held.subarray(delimiter.length);
        return;
      }
      await this.#fill();
    }
  }

  async short(delimiter: Buffer): Promise<string> {
    while (!this.#held.includes(delimiter)) {
      if (this.#held.length > MAX_PART_HEAD_BYTES) throw malformed("the head of a part is too long");
      await this.#fill();
    }
    const at = this.#held.indexOf(delimiter);
    const text = this.#held.toString("utf8", 0, at);
    this.#held = this.#held.subarray(at + delimiter.length);
    return text;
  }

  async peek(numBytes: number): Promise<string> {
    while (this.#held.length < numBytes) await this.#fill();
    return this.#held.toString("latin1", 0, numBytes);
  }

  async #fill(): Promise<void> {
    const { done, value } = await this.#chunks.next();
    if (done === true) throw malformed("it ends before its last delimiter");
    this.#held = this.#held.length === 0 ? Buffer.from(value) : Buffer.concat([this.#held, value]);
  }
}
