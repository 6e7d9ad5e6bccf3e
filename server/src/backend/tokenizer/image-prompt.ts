/**
 * Prompts with images: a template combines a text and image placeholders. Each placeholder becomes as many ids beyond
 * the vocabulary as its image has rows in the prompt table. Knows row counts only, no images.
 */
import { MAX_IMAGE_PLACES } from "../../core/limits.ts";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";

export interface ImagePromptSettings {
  /** "{text}" is the client's text, "{images}" one placeholder for each image that the text itself does not place. */
  readonly template: string;
  /** Placeholder of one image, in templates and in texts. */
  readonly place: string;
  /**
   * Text inserted for an image that the client did not place: the placeholder and the markers that the model needs
   * around it.
   */
  readonly framedPlace: string;
  /** Ids from here on are rows of the table. */
  readonly vocabularySize: number;
  readonly addSpecialTokens: boolean;
}

/**
 * The text with a placeholder for every image. @throws ServerError when the numbers of placeholders and images differ
 */
export function renderPrompt(
  { template, place, framedPlace }: ImagePromptSettings,
  text: string,
  numImages: number,
): string {
  const placed = countOf(text, place);
  if (placed > 0 && placed !== numImages) throw wrongPlaces(placed, numImages, place);
  const places = placed > 0 ? "" : framedPlace.repeat(numImages);
  // One pass: what a client writes is never taken for a part of the template.
  const prompt = template.replace(/\{images\}|\{text\}/g, (part) => (part === "{text}" ? text : places));
  const total = countOf(prompt, place);
  if (total !== numImages) throw wrongPlaces(total, numImages, place);
  if (total > MAX_IMAGE_PLACES) {
    throw invalidArgument(`the prompt has ${total} places, expected at most ${MAX_IMAGE_PLACES}`);
  }
  return prompt;
}

/** Ids of a rendered prompt; `lengths` are the rows of each image, in order. In steps, as texts can be long. */
export function* encodePrompt(
  settings: ImagePromptSettings,
  tokenizer: Tokenizer,
  prompt: string,
  lengths: readonly number[],
): Generator<undefined, Int32Array, undefined> {
  const { place, vocabularySize, addSpecialTokens } = settings;
  const placeId = tokenizer.idOf(place);
  // A token of its own keeps the text around it as the model was trained with it; else each part stands for itself.
  if (placeId !== undefined) {
    return expandIds(yield* tokenizer.encodeSteps(prompt, { addSpecialTokens }), placeId, lengths, vocabularySize);
  }
  const ids: number[] = [];
  let row = vocabularySize;
  for (const [index, part] of prompt.split(place).entries()) {
    if (index > 0) for (let i = lengths[index - 1] ?? 0; i > 0; i--) ids.push(row++);
    const isFramed = addSpecialTokens && index === 0;
    if (part === "" && !isFramed) continue;
    for (const id of yield* tokenizer.encodeSteps(part, { addSpecialTokens: isFramed })) ids.push(id);
  }
  return Int32Array.from(ids);
}

function expandIds(ids: Int32Array, placeId: number, lengths: readonly number[], firstRow: number): Int32Array {
  const added = lengths.reduce((sum, length) => sum + length - 1, 0);
  const out = new Int32Array(ids.length + added);
  let row = firstRow;
  let image = 0;
  let at = 0;
  for (const id of ids) {
    if (id !== placeId) {
      out[at++] = id;
      continue;
    }
    for (let i = lengths[image++] ?? 0; i > 0; i--) out[at++] = row++;
  }
  return out.subarray(0, at);
}

function countOf(text: string, part: string): number {
  let count = 0;
  for (let at = text.indexOf(part); at >= 0 && count <= MAX_IMAGE_PLACES; at = text.indexOf(part, at + part.length))
    count += 1;
  return count;
}

function wrongPlaces(places: number, images: number, place: string): ServerError {
  const text = `the prompt has ${places} places '${place}' for ${images} images; write one for each, or none and let the model's prompt_template place them`;
  return invalidArgument(text);
}
