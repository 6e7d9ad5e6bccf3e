/** Names, datatypes and shapes of models, from a server that runs or from a model repository. */
import { ClientError, type JsonRecord, NereidClient, type TensorMetadata } from "@nereid/client";
import type { ModelInput, ModelOutput } from "@nereid/server/core/model-config";
import { datatypeOf } from "@nereid/server/core/model-signature";
import { ToolError } from "@nereid/server/files/tool-error";
import { isDatatype } from "@nereid/wire";
import { examineModel } from "../check/examined-model.ts";
import { findingText } from "../check/finding.ts";
import { modelNames } from "../typescript/write-types.ts";
import type { DescribedModel, DescribedTensor } from "./client-types.ts";

export interface DescribedModels {
  readonly models: readonly DescribedModel[];
  /** Models without declared tensors, by name. */
  readonly undescribed: readonly string[];
}

/** All ready models of a server. @throws ToolError when it does not answer, or answers what is no datatype */
export async function describeServed(url: string, signal: AbortSignal): Promise<DescribedModels> {
  using client = new NereidClient({ url });
  try {
    const index = await client.repository.index({ isReady: true, signal });
    const names = [...new Set(index.map(({ name }) => name))];
    const models = await Promise.all(names.map((name) => describeModel(client, name, signal)));
    return { models, undescribed: [] };
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    throw new ToolError(`${url}: ${error.message}`, error.hint === undefined ? {} : { fix: error.hint });
  }
}

async function describeModel(client: NereidClient, name: string, signal: AbortSignal): Promise<DescribedModel> {
  const model = client.model(name);
  const [{ inputs, outputs }, config] = await Promise.all([model.metadata({ signal }), model.config({ signal })]);
  const optional = optionalInputs(config);
  return {
    name,
    inputs: inputs.map((input) => servedTensor(name, input, optional.has(input.name))),
    outputs: outputs.map((output) => servedTensor(name, output, false)),
  };
}

/** Metadata does not say which inputs may be left out. */
function optionalInputs({ input }: JsonRecord): ReadonlySet<string> {
  const inputs = Array.isArray(input) ? (input as readonly JsonRecord[]) : [];
  return new Set(inputs.flatMap(({ name, optional }) => (optional === true && typeof name === "string" ? [name] : [])));
}

function servedTensor(model: string, { name, datatype, shape }: TensorMetadata, isOptional: boolean): DescribedTensor {
  if (isDatatype(datatype)) return { name, datatype, shape, isOptional };
  throw new ToolError(`model '${model}': tensor '${name}' has the datatype '${datatype}', which V2 does not have`);
}

/** All models of a folder that have a configuration. @throws ToolError when one cannot be read */
export async function describeRepository(repository: string): Promise<DescribedModels> {
  const examined = await Promise.all((await modelNames(repository)).map((name) => examineModel(repository, name)));
  const models: DescribedModel[] = [];
  const undescribed: string[] = [];
  for (const { name, config, findings } of examined) {
    if (config === undefined) throw new ToolError(findings.map(findingText).join("\n"));
    const { input, output, max_batch_size } = config;
    const describe = (tensor: ModelInput | ModelOutput): DescribedTensor => ({
      name: tensor.name,
      datatype: datatypeOf(tensor.data_type),
      shape: max_batch_size > 0 ? [-1, ...tensor.dims] : tensor.dims,
      isOptional: "optional" in tensor && tensor.optional,
    });
    if (input.length === 0 || output.length === 0) undescribed.push(name);
    else models.push({ name, inputs: input.map(describe), outputs: output.map(describe) });
  }
  return { models, undescribed };
}
