/** Decides whether the head comment of a file names the specification, paper or format page that the file implements. */

/** One pattern for each way to name a source. Extend it when a file names a real source in another way. */
export const SOURCE_PATTERNS: Readonly<Record<string, RegExp>> = {
  rfc: /\bRFC \d{3,5}\b/,
  url: /https?:\/\/\S+\.\S/,
  /** "Source: ggml/docs/gguf.md", "Sources: see awq.ts". */
  label: /\b[Ss]ources?: \w/,
  /** "Hu et al. 2021", "Granlund and Montgomery (1994)", "Clinger, 1990". */
  paper: /\b[A-Z][\w-]+(?: et al\.| and [A-Z][\w-]+)?,? \(?(?:19|20)\d\d\b/,
  inferenceProtocol: /\bKServe V2\b|\bOpen Inference Protocol\b|\bTriton's [\w -]+ extension\b/,
  grpc: /\bgRPC over HTTP\/2\b|\bgRPC (?:health checking|server reflection) protocol\b/i,
  protobuf: /\bprotobuf encoding\b|\bprotobuf\.dev\b/i,
  standard: /\bIEEE 754\b|\bECMA-262\b|\bUnicode \d|\bPOSIX\b|\bWebAssembly core specification\b/,
  web: /\bServer-Sent Events\b|\bTrace Context\b|\bOpenMetrics\b|\bPrometheus exposition format\b|\bOTLP\b/i,
  modelFormat: /\bggml\/docs\b|\bonnx\.proto\b|\bONNX (?:IR|operator)|\bsafetensors README\b|\bNEP 1\b/,
  cuda: /\bPTX ISA\b|\bCUDA (?:C\+\+ Programming|Driver API|Binary)|\bNCCL\b/,
  signature: /\bSignature Version 4\b/,
};

/** Blanks, comments, imports, and lines of a C preprocessor, as far as they precede the first declaration. */
const HEAD_PART = /\s+|\/\*[\s\S]*?\*\/|\/\/[^\n]*|#[^\n]*|import\b[\s\S]*?;/y;

/** All comments in front of the first declaration. */
export function headComment(text: string): string {
  const comments: string[] = [];
  HEAD_PART.lastIndex = 0;
  for (let part = HEAD_PART.exec(text); part !== null; part = HEAD_PART.exec(text)) {
    if (part[0].startsWith("/")) comments.push(part[0]);
  }
  // A name may be broken over two lines.
  return comments.join("\n").replace(/\n \* ?|\n\/\/ ?/g, " ");
}

export function namesSource(text: string): boolean {
  const comment = headComment(text);
  return Object.values(SOURCE_PATTERNS).some((pattern) => pattern.test(comment));
}
