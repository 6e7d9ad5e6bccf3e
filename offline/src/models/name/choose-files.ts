/**
 * Which files of a hub repository make the model: safetensors with their configuration, or one GGUF file with all its
 * parts. Pure. Source: ggml/docs/gguf.md, "GGUF Naming Convention".
 */
import { ToolError } from "@nereid/server/files/tool-error";

export type ChosenFiles =
  /** A Hugging Face folder. */
  | { readonly kind: "folder" }
  /** The first part comes first. */
  | { readonly kind: "gguf"; readonly paths: readonly string[] };

/** Files of a Hugging Face folder, with its weights; the rest of a repository is for people and other programs. */
export const FOLDER_FILES: readonly string[] = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"];

/** In the order in which they are taken when nobody asks for one. */
const PREFERRED = ["Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "Q4_1", "Q5_0", "Q6_K", "Q8_0", "Q3_K_M", "F16", "BF16"];
const PART_OF = /-(\d{5})-of-\d{5}\.gguf$/;
const SHOWN = 12;

/** @throws ToolError naming the files that could be chosen */
export function chooseFiles(paths: readonly string[], quantization: string | undefined, name: string): ChosenFiles {
  const isFolder = paths.includes("config.json") && paths.some((path) => path.endsWith(".safetensors"));
  if (isFolder && quantization === undefined) return { kind: "folder" };
  const first = paths.filter(isFirstGguf).sort();
  if (first.length === 0) throw noGguf(paths, quantization, name);
  const chosen = quantization === undefined ? preferred(first) : matching(first, quantization);
  if (chosen === undefined) {
    throw new ToolError(`${name} has no GGUF file for '${quantization}': it has ${list(first)}`, {
      fix: `Name one of them behind a colon, such as ${name}:${labelOf(first[0] ?? "")}`,
    });
  }
  return { kind: "gguf", paths: withParts(chosen, paths) };
}

/** Projectors of images and importance matrices have the same ending. */
export function isFirstGguf(path: string): boolean {
  const part = PART_OF.exec(path)?.[1] ?? "00001";
  return path.endsWith(".gguf") && part === "00001" && !/mmproj|imatrix/i.test(path);
}

function preferred(paths: readonly string[]): string | undefined {
  const found = PREFERRED.map((label) => matching(paths, label)).find((path) => path !== undefined);
  return found ?? paths[0];
}

/** A file name, or its label, in any case. */
function matching(paths: readonly string[], wanted: string): string | undefined {
  const lower = wanted.toLowerCase();
  const exact = paths.find((path) => path.toLowerCase() === lower);
  return exact ?? paths.find((path) => labelOf(path).toLowerCase() === lower || endsWithLabel(path, lower));
}

function endsWithLabel(path: string, lower: string): boolean {
  const stem = path
    .replace(PART_OF, "")
    .replace(/\.gguf$/, "")
    .toLowerCase();
  return [".", "-", "_", "/"].some((separator) => stem.endsWith(`${separator}${lower}`));
}

/** `Q4_K_M` of `model-Q4_K_M.gguf`; the whole stem when there is none. */
export function labelOf(path: string): string {
  const stem = path
    .slice(path.lastIndexOf("/") + 1)
    .replace(PART_OF, "")
    .replace(/\.gguf$/, "");
  return /(?:^|[.\-_])((?:I?Q\d|TQ\d|MXFP4|NVFP4)[A-Z0-9_]*|BF16|F16|F32)$/i.exec(stem)?.[1] ?? stem;
}

/** The first part comes first. */
export function withParts(first: string, paths: readonly string[]): readonly string[] {
  if (!PART_OF.test(first)) return [first];
  const stem = first.replace(PART_OF, "");
  return paths.filter((path) => PART_OF.test(path) && path.replace(PART_OF, "") === stem).sort();
}

function noGguf(paths: readonly string[], quantization: string | undefined, name: string): ToolError {
  if (quantization === undefined) {
    return new ToolError(`${name} holds no model that can be served: it has ${list(paths)}`, {
      fix: "Expected config.json with *.safetensors, or a .gguf file",
    });
  }
  const fix = `Leave ':${quantization}' out, and quantize while loading with --weight-type q4_0 or q8_0`;
  return new ToolError(`${name} has no GGUF files, which '${quantization}' would select among`, { fix });
}

function list(paths: readonly string[]): string {
  if (paths.length === 0) return "no files";
  return `${paths.slice(0, SHOWN).join(", ")}${paths.length > SHOWN ? ", …" : ""}`;
}
