/** Inference over HTTP with tensors in binary, as the V2 protocol's binary extension says. Knows no model. */

const READERS = {
  FP32: (buffer) => new Float32Array(buffer),
  INT32: (buffer) => new Int32Array(buffer),
  INT64: (buffer) => new BigInt64Array(buffer),
};

/** A BYTES tensor of texts: each with its length in front. */
export function textTensor(name, texts, shape) {
  const parts = texts.flatMap((text) => {
    const body = Buffer.from(text);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(body.length);
    return [length, body];
  });
  return { name, datatype: "BYTES", shape, data: Buffer.concat(parts) };
}

export function tensor(name, datatype, shape, values) {
  return { name, datatype, shape, data: Buffer.from(values.buffer, values.byteOffset, values.byteLength) };
}

/** Runs a model; gives its outputs by name, each with `shape` and `values`. */
export async function infer(url, model, inputs) {
  const header = Buffer.from(
    JSON.stringify({
      inputs: inputs.map(({ name, datatype, shape, data }) => ({
        name,
        datatype,
        shape,
        parameters: { binary_data_size: data.length },
      })),
      parameters: { binary_data_output: true },
    }),
  );
  const response = await fetch(`${url}/v2/models/${model}/infer`, {
    method: "POST",
    headers: {
      "Content-Type": "application/octet-stream",
      "Inference-Header-Content-Length": String(header.length),
    },
    body: Buffer.concat([header, ...inputs.map(({ data }) => data)]),
  });
  if (!response.ok) throw new Error(`${model}: HTTP ${response.status} ${await response.text()}`);
  return readOutputs(response.headers.get("Inference-Header-Content-Length"), await response.arrayBuffer());
}

function readOutputs(headerLength, body) {
  const length = headerLength === null ? body.byteLength : Number(headerLength);
  const { outputs } = JSON.parse(Buffer.from(body, 0, length).toString());
  let offset = length;
  return new Map(
    outputs.map(({ name, datatype, shape, parameters }) => {
      const end = offset + parameters.binary_data_size;
      // A copy: typed arrays want an aligned start.
      const values = READERS[datatype]?.(body.slice(offset, end));
      offset = end;
      return [name, { shape, values }];
    }),
  );
}
