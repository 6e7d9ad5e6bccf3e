/**
 * Defaults for unfilled placeholders in the templates of TensorRT-LLM backend repositories: the usual value, or a
 * neutral one. Other templates have no defaults. Pure.
 */

/** By placeholder, as written in a configuration. */
const STAND_INS: ReadonlyMap<string, string> = new Map([
  ["triton_max_batch_size", "64"],
  ["triton_backend", '"tensorrtllm"'],
  ["decoupled_mode", "false"],
  ["max_queue_delay_microseconds", "0"],
  ["max_queue_size", "0"],
  ["logits_datatype", "TYPE_FP32"],
  ["encoder_input_features_data_type", "TYPE_FP16"],
  ["prompt_embedding_table_data_type", "TYPE_FP16"],
  ["preprocessing_instance_count", "1"],
  ["postprocessing_instance_count", "1"],
  ["bls_instance_count", "1"],
]);

const WHOLE_TEXT = /^\$\{[^}\n]*\}$/;

/** Whether a quoted text is exactly one placeholder. */
export function isPlaceholderText(text: string): boolean {
  return WHOLE_TEXT.test(text);
}

/** `name` of `${name}` or `$name`. */
export function placeholderName(written: string): string {
  return written.replace(/^\$\{?|\}$/g, "");
}

/** The default in place of an unfilled placeholder; undefined: it must be filled in. */
export function standInOf(written: string): string | undefined {
  return STAND_INS.get(placeholderName(written));
}

/** Log text: field, assumed value, and how to fill it in. */
export function unfilledText(field: string, written: string, standIn: string): string {
  return (
    `field '${field}' has the unfilled template placeholder '${written}': taking ${standIn}; ` +
    `fill it with 'nereid fill-template -i config.pbtxt ${placeholderName(written)}:<value>' or write the value in its place`
  );
}
