/** Reads the facts of a model of speech from its folders. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { ServedModel } from "../../core/model-server.ts";
import { invalidArgument } from "../../core/server-error.ts";
import { readSpeechFeatures, readSpeechTokens } from "../../formats/hf/speech-config.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";
import type { SpeechFacts } from "./speech-model.ts";

/** `folders` may hold the weights, likeliest first. @throws ServerError saying what is missing, or which field is wrong */
export async function readSpeechFacts(
  { name }: Pick<ServedModel, "name">,
  folders: readonly string[],
  tokenizer: Tokenizer | undefined,
): Promise<SpeechFacts> {
  const refuse = (why: string): Error => invalidArgument(`The model '${name}' reads no sound: ${why}`);
  const folder = folders.find((each) => existsSync(join(each, "config.json")));
  if (folder === undefined) throw refuse("no config.json of a Hugging Face model was found for it");
  if (tokenizer === undefined)
    throw refuse("no tokenizer was found; set the parameter 'tokenizer_dir' in its config.pbtxt");
  try {
    return { features: await readSpeechFeatures(folder), tokens: await readSpeechTokens(folder), tokenizer };
  } catch (error) {
    throw refuse(error instanceof Error ? error.message : String(error));
  }
}
