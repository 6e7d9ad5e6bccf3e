/**
 * Decides whether the external data files of an ONNX model may be read. They must be regular files inside the model's
 * folder and as long as stated. Source: ONNX, "External Data". Call before any runtime resolves references.
 */
import { lstat, realpath, stat } from "node:fs/promises";
import { dirname, isAbsolute, join, sep } from "node:path";
import { type ExternalData, readExternalData } from "./model.ts";

/** A location that means process memory to ONNX Runtime (ORT_MEM_ADDR), not a file. */
const MEMORY_MARKER = "_ORT_MEM_ADDR_";

export class ExternalDataError extends Error {
  constructor(tensor: string, location: string, problem: string) {
    super(`external data of tensor '${tensor}' at '${location}' ${problem}`);
    this.name = "ExternalDataError";
  }
}

interface Reference {
  readonly tensor: string;
  readonly location: string;
  readonly offset: number;
  /** Undefined: to the end of the file. */
  readonly length: number | undefined;
}

export interface ExternalDataOptions {
  /** Allows hard links: the caller created them itself. */
  readonly allowsHardLinks?: boolean;
}

/** @throws ExternalDataError for the first forbidden reference, OnnxFormatError when the file is no model */
export async function checkExternalData(
  modelPath: string,
  { allowsHardLinks = false }: ExternalDataOptions = {},
): Promise<void> {
  const references = (await readExternalData(modelPath)).map(parseReference);
  if (references.length === 0) return;
  const folder = await realpath(dirname(modelPath));
  const sizes = new Map<string, number>();
  for (const reference of references) {
    const known = sizes.get(reference.location);
    const size = known ?? (await fileSize(folder, reference, allowsHardLinks));
    sizes.set(reference.location, size);
    checkRange(reference, size);
  }
}

function parseReference({ tensor, entries }: ExternalData): Reference {
  const locations = entries.filter(([key]) => key === "location").map(([, value]) => value);
  const [location = ""] = locations;
  if (locations.length !== 1) {
    throw new ExternalDataError(tensor, location, `has ${locations.length} locations, expected 1`);
  }
  checkLocation(tensor, location);
  const number = (key: string): number | undefined => parseNumber(tensor, location, entries, key);
  return { tensor, location, offset: number("offset") ?? 0, length: number("length") };
}

function checkLocation(tensor: string, location: string): void {
  const refuse = (problem: string): never => {
    throw new ExternalDataError(tensor, location, problem);
  };
  if (location === "") refuse("names no file");
  if (location.includes("\0") || location.includes("\\")) refuse("has characters that no file name may have");
  if (location.includes(MEMORY_MARKER)) refuse("names memory of the server, expected a file");
  if (isAbsolute(location) || /^[a-z]:/i.test(location))
    refuse("is absolute, expected a path inside the model's folder");
  if (location.split("/").includes("..")) refuse("leaves the model's folder");
}

function parseNumber(
  tensor: string,
  location: string,
  entries: ExternalData["entries"],
  key: string,
): number | undefined {
  const texts = entries.filter(([name]) => name === key).map(([, value]) => value);
  if (texts.length === 0) return undefined;
  const [text = ""] = texts;
  const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (texts.length > 1 || !Number.isSafeInteger(value)) {
    throw new ExternalDataError(
      tensor,
      location,
      `has ${key} '${texts.join("', '")}', expected one whole number of bytes`,
    );
  }
  return value;
}

/** Size of the referenced file, after checking that it may be read. */
async function fileSize(folder: string, { tensor, location }: Reference, allowsHardLinks: boolean): Promise<number> {
  const path = join(folder, location);
  const entry = await lstat(path).catch(() => undefined);
  if (entry === undefined) throw new ExternalDataError(tensor, location, "does not exist");
  if (!entry.isFile()) throw new ExternalDataError(tensor, location, "is no regular file");
  if (entry.nlink !== 1 && !allowsHardLinks) {
    throw new ExternalDataError(tensor, location, `has ${entry.nlink} hard links, expected 1`);
  }
  const real = await realpath(path);
  if (!real.startsWith(folder + sep)) throw new ExternalDataError(tensor, location, "leaves the model's folder");
  return (await stat(real)).size;
}

function checkRange({ tensor, location, offset, length }: Reference, size: number): void {
  const end = offset + (length ?? 0);
  if (end > size) {
    throw new ExternalDataError(tensor, location, `ends at byte ${end}, but the file has ${size} bytes`);
  }
}
