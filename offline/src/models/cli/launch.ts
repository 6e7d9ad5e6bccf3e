/** `nereid launch`: a coding agent by its name, or the command line of launch_triton_server.py. The first argument decides. */
import { launchCommand } from "../../cli/launch.ts";
import { isAgent } from "../agents/agent-environment.ts";
import { launchAgentCommand } from "./launch-agent.ts";

export async function launchByArguments(argv: readonly string[]): Promise<void> {
  const [first = ""] = argv;
  await (isAgent(first) ? launchAgentCommand(argv) : launchCommand(argv));
}
