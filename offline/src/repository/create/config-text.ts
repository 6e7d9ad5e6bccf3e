/** Formats parts of a config.pbtxt (protobuf text format). Pure. */

/** A tensor of a configuration; `more` are its other fields. */
export type TensorLine = readonly [name: string, type: string, dims: string, more?: string];

export function head(comment: string, name: string, backend: string, maxBatchSize: number): string {
  const batching = maxBatchSize > 0 ? `max_batch_size: ${maxBatchSize}\n` : "";
  return `# ${comment}\nname: "${name}"\nbackend: "${backend}"\n${batching}`;
}

export function tensors(kind: "input" | "output", lines: readonly TensorLine[]): string {
  const texts = lines.map(([name, type, dims, more = ""]) => {
    const rest = more === "" ? "" : ` ${more}`;
    return `  { name: "${name}" data_type: TYPE_${type} dims: [ ${dims} ]${rest} }`;
  });
  return `${kind} [\n${texts.join(",\n")}\n]\n`;
}

/** JSON's escapes are valid in the format. */
export function parameters(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([key, value]) => `parameters {\n  key: "${key}"\n  value: { string_value: ${JSON.stringify(value)} }\n}\n`)
    .join("");
}

/** A tensor of a model, and its name in the ensemble. */
export type NamePair = readonly [key: string, value: string];

export function step(model: string, inputs: readonly NamePair[], outputs: readonly NamePair[]): string {
  const map = (kind: string, pairs: readonly NamePair[]): string[] =>
    pairs.map(([key, value]) => `      ${kind}_map { key: "${key}" value: "${value}" }`);
  const lines = [
    `      model_name: "${model}"`,
    "      model_version: -1",
    ...map("input", inputs),
    ...map("output", outputs),
  ];
  return `    {\n${lines.join("\n")}\n    }`;
}
