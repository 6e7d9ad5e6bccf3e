/** The work of `vlm_search` without an ensemble: a client calls every model itself and waits for each. */

interface Wire {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: Buffer;
}

/** One request with binary tensors both ways; tensors come back as they would be sent on. */
async function call(
  baseUrl: string,
  model: string,
  inputs: readonly Wire[],
  outputs: readonly string[],
): Promise<Map<string, Wire>> {
  const header = Buffer.from(
    JSON.stringify({
      inputs: inputs.map(({ name, datatype, shape, data }) => ({
        name,
        datatype,
        shape,
        parameters: { binary_data_size: data.length },
      })),
      outputs: outputs.map((name) => ({ name, parameters: { binary_data: true } })),
    }),
  );
  const reply = await fetch(`${baseUrl}/v2/models/${model}/infer`, {
    method: "POST",
    headers: { "inference-header-content-length": String(header.length) },
    body: Buffer.concat([header, ...inputs.map(({ data }) => data)]),
  });
  const body = Buffer.from(await reply.arrayBuffer());
  if (!reply.ok) throw new Error(`${model}: ${body.toString()}`);
  const headLength = Number(reply.headers.get("inference-header-content-length"));
  const head: { outputs: (Omit<Wire, "data"> & { parameters: { binary_data_size: number } })[] } = JSON.parse(
    body.subarray(0, headLength).toString(),
  );
  const found = new Map<string, Wire>();
  let at = headLength;
  for (const { name, datatype, shape, parameters } of head.outputs) {
    found.set(name, { name, datatype, shape, data: body.subarray(at, at + parameters.binary_data_size) });
    at += parameters.binary_data_size;
  }
  return found;
}

function renamed(from: ReadonlyMap<string, Wire>, output: string, input: string, shape?: readonly number[]): Wire {
  const tensor = from.get(output);
  if (tensor === undefined) throw new Error(`no output ${output}`);
  return { ...tensor, name: input, shape: shape ?? tensor.shape };
}

function bytes(name: string, shape: readonly number[], element: Buffer): Wire {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(element.length);
  return { name, datatype: "BYTES", shape, data: Buffer.concat([length, element]) };
}

export async function stepsOneByOne(
  baseUrl: string,
  image: Buffer,
  question: string,
  maxTokens: number,
): Promise<Map<string, Wire>> {
  const pixels = await call(baseUrl, "image_preprocessing", [bytes("IMAGE", [1], image)], ["pixel_values"]);
  const seen = await call(
    baseUrl,
    "vision_encoder",
    [renamed(pixels, "pixel_values", "pixel_values")],
    ["visual_tokens"],
  );
  const query = bytes("QUERY", [1], Buffer.from(question));
  const limit = {
    name: "REQUEST_OUTPUT_LEN",
    datatype: "INT32",
    shape: [1],
    data: Buffer.from(Int32Array.of(maxTokens).buffer),
  };
  await say(baseUrl, "vlm_preprocessing", [query, renamed(seen, "visual_tokens", "VISUAL_TOKENS"), limit]);
  const description = await say(baseUrl, "description_prompt", [
    query,
    renamed(seen, "visual_tokens", "VISUAL_TOKENS"),
  ]);
  const tokens = await call(
    baseUrl,
    "caption_tokens",
    [renamed(description, "OUTPUT", "TEXT", [1, 1])],
    ["input_ids", "attention_mask"],
  );
  const embedding = await call(
    baseUrl,
    "text_encoder",
    ["input_ids", "attention_mask"].map((name) => renamed(tokens, name, name)),
    ["text_embeds"],
  );
  return call(
    baseUrl,
    "caption_search",
    [renamed(embedding, "text_embeds", "embedding")],
    ["ids", "scores", "documents"],
  );
}

/** Prompt, tokens, text. */
async function say(baseUrl: string, prompt: string, inputs: readonly Wire[]): Promise<Map<string, Wire>> {
  const names = [
    "INPUT_ID",
    "REQUEST_INPUT_LEN",
    "REQUEST_OUTPUT_LEN",
    "OUT_END_ID",
    "PROMPT_EMBEDDING_TABLE",
    "PROMPT_VOCAB_SIZE",
  ];
  const made = await call(baseUrl, prompt, inputs, names);
  const engineNames = [
    "input_ids",
    "input_lengths",
    "request_output_len",
    "end_id",
    "prompt_embedding_table",
    "prompt_vocab_size",
  ];
  const row = names.map((name, i) => renamed(made, name, engineNames[i] ?? "", [1, ...(made.get(name)?.shape ?? [])]));
  const generated = await call(baseUrl, "vision_llm", row, ["output_ids", "sequence_length"]);
  const texts = [
    renamed(generated, "output_ids", "TOKENS_BATCH"),
    renamed(generated, "sequence_length", "SEQUENCE_LENGTH"),
  ];
  return call(baseUrl, "postprocessing", texts, ["OUTPUT"]);
}
