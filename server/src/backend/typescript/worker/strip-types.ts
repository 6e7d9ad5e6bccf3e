/** TypeScript to JavaScript of the same lines and columns, file by file, without a look at types. */
import type { transformSync } from "@swc/wasm-typescript";

/** @throws SyntaxError with file, line and the text around it */
export async function stripTypes(source: string, path: string): Promise<string> {
  // Half a second of WebAssembly: only for those who have a file to strip.
  const library = await import("@swc/wasm-typescript");
  const convert: typeof transformSync = library.default.transformSync;
  try {
    return convert(source, { mode: "strip-only", filename: path }).code;
  } catch (thrown) {
    const problem = problemOf(thrown);
    if (problem.code !== "UnsupportedSyntax") throw syntaxError(problem, path);
  }
  try {
    // Enums and the like mean something: they are written anew, with a map for stack traces.
    const { code, map } = convert(source, { mode: "transform", sourceMap: true, filename: path });
    const link = Buffer.from(map ?? "").toString("base64");
    return `${code}\n//# sourceMappingURL=data:application/json;base64,${link}`;
  } catch (thrown) {
    throw syntaxError(problemOf(thrown), path);
  }
}

interface Problem {
  readonly code?: string;
  readonly message?: string;
  readonly snippet?: string;
  readonly startLine?: number;
  readonly startColumn?: number;
}

/** The library throws plain objects. */
function problemOf(thrown: unknown): Problem {
  return typeof thrown === "object" && thrown !== null ? thrown : { message: String(thrown) };
}

function syntaxError({ message, snippet, startLine, startColumn }: Problem, path: string): SyntaxError {
  const place = startLine === undefined ? path : `${path}:${startLine}:${(startColumn ?? 0) + 1}`;
  return new SyntaxError(
    `${place}: ${message ?? "cannot be read"}${snippet === undefined ? "" : `\n${snippet.trimEnd()}`}`,
  );
}
