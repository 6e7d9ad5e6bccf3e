/**
 * Selects the requested files of a repository by shell patterns, like huggingface_hub's `allow_patterns` (Python
 * fnmatch). Pure.
 */

/** Weights of other frameworks and formats, skipped when there are safetensors. */
const NOT_FOR_SERVING = [
  "*.bin",
  "*.pth",
  "*.pt",
  "*.h5",
  "*.msgpack",
  "*.ot",
  "*.onnx",
  "*.onnx_data",
  "*.tflite",
  "*.mlmodel",
  "original/*",
];

export interface FileFilter {
  /** Empty: all files. */
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** Skips weights that exist a second time in another format. */
  readonly servingOnly: boolean;
}

export function wantedFiles(paths: readonly string[], { include, exclude, servingOnly }: FileFilter): string[] {
  const hasSafetensors = paths.some((path) => path.endsWith(".safetensors") && !path.includes("/"));
  const refused = servingOnly && hasSafetensors ? [...exclude, ...NOT_FOR_SERVING] : exclude;
  const included = include.map(patternOf);
  const excluded = refused.map(patternOf);
  return paths.filter((path) => {
    const isIncluded = included.length === 0 || included.some((pattern) => pattern.test(path));
    return isIncluded && !excluded.some((pattern) => pattern.test(path));
  });
}

/** `*` also matches slashes; a folder name with a trailing slash matches its whole content. */
function patternOf(glob: string): RegExp {
  const text = (glob.endsWith("/") ? `${glob}*` : glob).replace(/\*+/g, "*");
  let source = "";
  for (let index = 0; index < text.length; index++) {
    const character = text.charAt(index);
    if (character === "*") source += ".*";
    else if (character === "?") source += ".";
    else if (character === "[") {
      const end = text.indexOf("]", index + 2);
      source += end === -1 ? "\\[" : setOf(text.slice(index + 1, end));
      if (end !== -1) index = end;
    } else source += character.replace(/[.+^${}()|\]\\/]/, "\\$&");
  }
  return new RegExp(`^${source}$`, "s");
}

function setOf(content: string): string {
  const isNegated = content.startsWith("!");
  const members = (isNegated ? content.slice(1) : content).replace(/[\\\]^[]/g, "\\$&");
  return `[${isNegated ? "^" : ""}${members}]`;
}
