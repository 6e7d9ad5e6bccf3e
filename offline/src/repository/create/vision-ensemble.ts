/** The ensemble over the models that serve a vision-language model. Pure. */
import { type NamePair, step, type TensorLine, tensors } from "./config-text.ts";
import type { VisionModel } from "./vision-model.ts";
import { choices, promptOutputs } from "./vision-names.ts";

export function ensembleConfig(model: VisionModel, isDecoupled: boolean): string {
  const { made } = model;
  const wanted = choices(isDecoupled);
  const asked = wanted.map(([, name, type]): TensorLine => [name, type, "1", "optional: true"]);
  const ofImage = made.map(({ name }): NamePair => [name, `_${name}`]);
  const inner = (target: "encoder" | "prompt"): NamePair[] =>
    made.flatMap((each): NamePair[] => (each[target] === undefined ? [] : [[each[target], `_${each.name}`]]));
  const prompt = promptOutputs(model);
  const steps = [
    step("image_preprocessing", [["IMAGE", "image"]], [["pixel_values", "_pixel_values"], ...ofImage]),
    step(
      "vision_encoder",
      [["pixel_values", "_pixel_values"], ...inner("encoder")],
      [["visual_tokens", "_visual_tokens"]],
    ),
    step(
      "vlm_preprocessing",
      [
        ["QUERY", "text_input"],
        ["VISUAL_TOKENS", "_visual_tokens"],
        ...inner("prompt"),
        ["REQUEST_OUTPUT_LEN", "max_tokens"],
      ],
      prompt.map(([output, input]) => [output, `_${input}`]),
    ),
    step(
      "vision_llm",
      [
        ...prompt.map(([, input]): NamePair => [input, `_${input}`]),
        ...wanted.map(([input, name]): NamePair => [input, name]),
      ],
      [
        ["output_ids", "_output_ids"],
        ["sequence_length", "_sequence_length"],
      ],
    ),
    step(
      "vlm_postprocessing",
      [
        ["TOKENS_BATCH", "_output_ids"],
        ["SEQUENCE_LENGTH", "_sequence_length"],
      ],
      [["OUTPUT", "text_output"]],
    ),
  ];
  return [
    `# Images and a question in, an answer out.\nname: "vlm"\nplatform: "ensemble"\n`,
    tensors("input", [
      ["image", "STRING", "-1"],
      ["text_input", "STRING", "1"],
      ["max_tokens", "INT32", "1"],
      ...asked,
    ]),
    tensors("output", [["text_output", "STRING", "-1"]]),
    `ensemble_scheduling {\n  step [\n${steps.join(",\n")}\n  ]\n}\n`,
  ].join("");
}
