/** `nereid launch`: a coding agent by its name, or the flags of launch_triton_server.py. The first argument decides; help has both. */
import process from "node:process";
import { launchCommand } from "../../cli/launch.ts";
import { launchAgentCommand } from "./launch-agent.ts";

export async function launchByArguments(argv: readonly string[]): Promise<void> {
  const [first = ""] = argv;
  const isHelp = first === "-h" || first === "--help";
  if (first.startsWith("-")) await launchCommand(argv);
  if (isHelp) process.stdout.write("\n");
  if (isHelp || !first.startsWith("-")) await launchAgentCommand(argv);
}
