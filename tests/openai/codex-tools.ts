/** Tools as Codex CLI sends them (openai/codex, codex-rs: tools). */

type Json = Readonly<Record<string, unknown>>;

export const SHELL: Json = {
  type: "function",
  name: "shell_command",
  description: "Runs a shell command and returns its output.",
  strict: false,
  parameters: {
    type: "object",
    properties: {
      command: { type: "string" },
    },
    required: ["command"],
    additionalProperties: false,
  },
};

const PATCH_GRAMMAR = `start: begin hunk+ end
begin: "*** Begin Patch" LF
hunk: "*** " ("Add" | "Delete") " File: " /(.+)/ LF ("+" /(.*)/ LF)*
end: "*** End Patch" LF?
%import common.LF
`;

export const APPLY_PATCH: Json = {
  type: "custom",
  name: "apply_patch",
  description: "Use the `apply_patch` tool to edit files.",
  format: { type: "grammar", syntax: "lark", definition: PATCH_GRAMMAR },
};

export const GITHUB: Json = {
  type: "namespace",
  name: "mcp__github",
  description: "Tools of the server github",
  tools: [
    {
      type: "function",
      name: "search_issues",
      description: "Search",
      strict: false,
      defer_loading: true,
      parameters: { type: "object", properties: { query: { type: "string" } } },
    },
  ],
};

export const HOSTED: readonly Json[] = [
  { type: "web_search", external_web_access: false, search_context_size: "low" },
  { type: "tool_search", execution: "client", description: "Search tools", parameters: { type: "object" } },
  { type: "image_generation", output_format: "png" },
  { type: "local_shell" },
  { type: "mcp", server_label: "deepwiki", server_url: "https://mcp.example/mcp", require_approval: "never" },
  { type: "a_tool_of_next_year", anything: { at: ["all"] } },
];
