/**
 * Images of a typed message: paths that begin with `/`, `./`, `../` or `~/` and end as image files do. Files that are there become
 * parts of the message, as OpenAI's API has them ("Images and vision"); all other text stays as it was typed.
 */
import { readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { ToolError } from "@nereid/server/files/tool-error";
import type { ContentPart } from "./chat-client.ts";

const TYPES: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  webp: "image/webp",
  gif: "image/gif",
  bmp: "image/bmp",
};
/** OpenAI's own limit for one image was 20 MB; a larger file is hardly meant. */
const MAX_IMAGE_BYTES: number = 20 * 2 ** 20;
const ENDING = `\\.(?:${Object.keys(TYPES).join("|")})`;
const START = "(?:~|\\.{0,2})/";
/** In quotes, or with blanks behind backslashes, as a terminal writes a file that is dropped on it. */
const PATH = new RegExp(
  `(?<=^|\\s)(?:"(${START}[^"\\n]*${ENDING})"|'(${START}[^'\\n]*${ENDING})'|(${START}(?:\\\\.|[^\\s\\\\"'])*${ENDING}))(?=$|[\\s,;:!?]|\\.(?:\\s|$))`,
  "gi",
);

export interface PathInText {
  readonly path: string;
  /** Place in the text, with the quotes. */
  readonly start: number;
  readonly end: number;
}

export function imagePathsIn(text: string): readonly PathInText[] {
  return [...text.matchAll(PATH)].map(({ 0: all, 1: double, 2: single, 3: bare = "", index }) => {
    const path = double ?? single ?? bare.replace(/\\(.)/g, "$1");
    return { path: path.replace(/^~(?=\/)/, homedir()), start: index, end: index + all.length };
  });
}

/** The text itself where it names no image that is there. @throws ToolError for a file that is too large or cannot be read */
export async function withImages(text: string): Promise<string | readonly ContentPart[]> {
  const images: ContentPart[] = [];
  let rest = "";
  let at = 0;
  for (const { path, start, end } of imagePathsIn(text)) {
    const image = await tryReadImage(path);
    if (image === undefined) continue;
    images.push(image);
    rest += text.slice(at, start);
    at = end;
  }
  if (images.length === 0) return text;
  const words = (rest + text.slice(at)).trim();
  return [...images, ...(words === "" ? [] : [{ type: "text", text: words } as const])];
}

/** Undefined: there is no such file. */
async function tryReadImage(path: string): Promise<ContentPart | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined || !found.isFile()) return undefined;
  if (found.size > MAX_IMAGE_BYTES)
    throw new ToolError(`${path} has ${found.size} bytes, expected at most ${MAX_IMAGE_BYTES}`, {
      fix: "Make the image smaller",
    });
  const bytes = await readFile(path).catch((cause: unknown) => {
    throw new ToolError(`${path} cannot be read: ${String(cause)}`, { cause });
  });
  const type = TYPES[path.slice(path.lastIndexOf(".") + 1).toLowerCase()] ?? "";
  return { type: "image_url", image_url: { url: `data:${type};base64,${bytes.toString("base64")}` } };
}
