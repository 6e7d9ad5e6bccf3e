/** Suggested fixes for load errors, by the error text. Pure. */

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/needs the package (\S+), which is not installed/, "Install it: npm install $1"],
  [
    /unexpected directory name '(.*?)' for model '(.*?)'/,
    "Rename the folder to '$2', or write name: \"$1\" (or nothing) in the configuration",
  ],
  [/at least one version must be available/, "Make a version folder, such as 1, and put the model's file into it"],
  [
    /Could not determine backend/,
    'Write backend: "..." in config.pbtxt, or put the model\'s file (model.onnx, model.py) into the version folder',
  ],
  [
    /unable to find backend library for backend '(.*?)'/,
    "Export the model to ONNX, or serve it with one of the backends onnxruntime, python, tensorrtllm, tokenizer, typescript",
  ],
  [/must specify 'platform' or 'backend'/, 'Write backend: "..." in config.pbtxt'],
  [/preferred size must be <= max batch size/, "Raise max_batch_size, or lower preferred_batch_size"],
  [/GPU/, "Write kind: KIND_CPU (or KIND_AUTO) in instance_group: this device has no GPU that is used"],
  [
    /must specify 'dims'|must have at least one|must specify at least one/,
    "Declare the model's inputs and outputs with name, data_type and dims",
  ],
  [
    /allows maximum batch size \d+, but it contains model (\S+) which only allows/,
    "Lower max_batch_size of the ensemble, or raise that of '$1'",
  ],
  [
    /ensemble tensor \S+ is mapp(?:ing to|ed from) non-existing (input|output) \S+ in model (\S+)/,
    "Write the $1's name as config.pbtxt of '$2' declares it; the key of input_map and output_map is the model's name, the value the ensemble's",
  ],
  [
    /inconsistent (data type|shape)/,
    "Make the two declarations equal; the model that computes is right, the ensemble follows it",
  ],
  [/input \S+ in model (\S+) is not mapped/, "Add it to input_map of the step, or declare it optional: true in '$1'"],
  [
    /whose required version \d+ is not loaded/,
    "Write model_version: -1 in the step for the latest, or add that version",
  ],
  [/circular dependency/, "Take one of the steps out of the circle"],
  [/expected true or false/, "Write true or false"],
];

export function adviceFor(problem: string): string {
  for (const [pattern, advice] of ADVICE) {
    const match = pattern.exec(problem);
    if (match !== null) return advice.replace(/\$(\d)/g, (_, group: string) => match[Number(group)] ?? "");
  }
  return "Correct the configuration as the message says";
}
