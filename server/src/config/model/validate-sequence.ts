/** The rules of `sequence_batching`. */
import type {
  ModelConfig,
  ModelSequenceBatching,
  ModelSequenceBatchingControl,
  SequenceControlKind,
} from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";

const CORRELATION_TYPES: ReadonlySet<string> = new Set([
  "TYPE_UINT64",
  "TYPE_INT64",
  "TYPE_UINT32",
  "TYPE_INT32",
  "TYPE_STRING",
]);
const FLAG_LISTS = ["int32_false_true", "fp32_false_true", "bool_false_true"] as const;
const BOOLEAN_KINDS: readonly SequenceControlKind[] = [
  "CONTROL_SEQUENCE_START",
  "CONTROL_SEQUENCE_END",
  "CONTROL_SEQUENCE_READY",
];

export function validateSequenceBatching(config: ModelConfig, batcher: ModelSequenceBatching): void {
  const { name } = config;
  if (config.response_cache?.enable === true) {
    throw invalidArgument(
      `Response Cache does not currently support model ${name} with sequence batching scheduler. Please disable the response cache.`,
    );
  }
  validateControlNames(name, batcher);
  for (const kind of BOOLEAN_KINDS) {
    const control = onlyControl(name, batcher, kind);
    if (control !== undefined) validateFlags(name, kind, control);
  }
  const correlation = onlyControl(name, batcher, "CONTROL_SEQUENCE_CORRID");
  if (correlation !== undefined) validateCorrelation(name, correlation);
  validateStrategy(config, batcher);
}

function validateControlNames(name: string, batcher: ModelSequenceBatching): void {
  const seen = new Set<string>();
  for (const input of batcher.control_input) {
    if (input.name === "") throw invalidArgument(`sequence batching control tensor must have a name for ${name}`);
    if (seen.has(input.name)) {
      throw invalidArgument(
        `sequence batching control tensor '${input.name}' is specified for multiple control kinds for ${name}`,
      );
    }
    seen.add(input.name);
  }
}

function onlyControl(
  name: string,
  batcher: ModelSequenceBatching,
  kind: SequenceControlKind,
): ModelSequenceBatchingControl | undefined {
  const controls = batcher.control_input.flatMap(({ control }) => control.filter((one) => one.kind === kind));
  if (controls.length > 1) throw invalidArgument(`sequence batching specifies multiple ${kind} tensors for ${name}`);
  return controls[0];
}

function validateFlags(name: string, kind: SequenceControlKind, control: ModelSequenceBatchingControl): void {
  const written = FLAG_LISTS.filter((list) => control[list].length > 0);
  const [list] = written;
  if (list === undefined) {
    throw invalidArgument(
      `sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for ${kind} for ${name}`,
    );
  }
  if (written.length > 1) {
    throw invalidArgument(
      `sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true' for ${kind} for ${name}`,
    );
  }
  if (control[list].length !== 2) {
    throw invalidArgument(`sequence batching control '${list}' must have exactly 2 entries for ${kind} for ${name}`);
  }
}

function validateCorrelation(name: string, control: ModelSequenceBatchingControl): void {
  if (FLAG_LISTS.some((list) => control[list].length > 0)) {
    throw invalidArgument(
      `sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for ${control.kind} for ${name}`,
    );
  }
  if (!CORRELATION_TYPES.has(control.data_type)) {
    throw invalidArgument(
      `unexpected data type for control ${control.kind} for ${name}. Allowed data types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING`,
    );
  }
}

function validateStrategy(config: ModelConfig, batcher: ModelSequenceBatching): void {
  const { name } = config;
  for (const size of batcher.oldest?.preferred_batch_size ?? []) {
    if (size <= 0) throw invalidArgument(`sequence batching preferred batch size must be positive for ${name}`);
    if (size > config.max_batch_size) {
      throw invalidArgument(`sequence batching preferred batch size must be <= max batch size for ${name}`);
    }
  }
  const utilization = batcher.direct?.minimum_slot_utilization ?? 0;
  if (!(utilization >= 0 && utilization <= 1)) {
    throw invalidArgument(`sequence batching minimum slot utilization must be in range (0.0, 1.0] for ${name}`);
  }
}
