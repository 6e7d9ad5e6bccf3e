/** Empty messages: every field has its default. */
import type {
  ModelConfig,
  ModelDynamicBatching,
  ModelInput,
  ModelInstanceGroup,
  ModelOptimizationPolicy,
  ModelOutput,
} from "../../core/model-config.ts";
import { completeMessage } from "./fill-defaults.ts";

interface MessageTypes {
  readonly ModelConfig: ModelConfig;
  readonly ModelDynamicBatching: ModelDynamicBatching;
  readonly ModelInput: ModelInput;
  readonly ModelInstanceGroup: ModelInstanceGroup;
  readonly ModelOptimizationPolicy: ModelOptimizationPolicy;
  readonly ModelOutput: ModelOutput;
}

export function defaultMessage<Name extends keyof MessageTypes>(name: Name): MessageTypes[Name] {
  return completeMessage(name, {}) as unknown as MessageTypes[Name];
}
