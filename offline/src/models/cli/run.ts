/**
 * `nereid run`: a chat with a model by its name, or the command line of TensorRT-LLM's run.py. The arguments decide; the modules of
 * the other command are not loaded.
 */

export async function runByArguments(argv: readonly string[]): Promise<void> {
  if (await isForEngine(argv)) {
    const { runEngineCommand } = await import("../../cli/run.ts");
    await runEngineCommand(argv);
    return;
  }
  const { runModelCommand } = await import("./run-model.ts");
  await runModelCommand(argv);
}

/** A name stands first, and run.py has none: it is recognized by a flag of its own. */
export async function isForEngine(argv: readonly string[]): Promise<boolean> {
  const [first] = argv;
  if (first?.startsWith("-") === false) return false;
  const [{ RUN_FLAG_NAMES }, { CHAT_FLAG_NAMES }] = await Promise.all([
    import("../../cli/run.ts"),
    import("./run-model.ts"),
  ]);
  return argv.some((argument) => {
    if (!argument.startsWith("--")) return false;
    const name = canonical(argument.slice(2).replace(/=.*$/s, ""));
    const begins = (known: string): boolean => name !== "" && canonical(known).startsWith(name);
    return RUN_FLAG_NAMES.some(begins) && !CHAT_FLAG_NAMES.some(begins);
  });
}

function canonical(name: string): string {
  return name.replaceAll("_", "-");
}
