/**
 * `nereid completion`: a script that completes commands, their flags and files in a shell. Flags come from the help of
 * the command, once a session: the script needs no change when a command does. Source: the manuals of bash, zsh (zshcompsys)
 * and fish.
 */
import type { CommandSyntax, FlagTable } from "./arguments.ts";
import { UsageError } from "./arguments.ts";
import { runCommand } from "./run-command.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;
const FLAGS = {} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "completion",
  description: "Prints the script that completes commands, flags and files of nereid in a shell.",
  flags: FLAGS,
  positionals: [{ name: "shell", summary: `one of ${SHELLS.join(", ")}` }],
  examples: [
    "nereid completion bash > ~/.local/share/bash-completion/completions/nereid",
    'nereid completion zsh > "$fpath[1]/_nereid"',
    "nereid completion fish > ~/.config/fish/completions/nereid.fish",
  ],
};

/** `commands`: their names, with a summary of each. */
export async function completionCommand(argv: readonly string[], commands: ReadonlyMap<string, string>): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ positionals, reporter }) => {
    const shell = SHELLS.find((name) => name === positionals[0]);
    if (shell === undefined) throw new UsageError(`<shell> is one of ${SHELLS.join(", ")}, got '${positionals[0]}'`);
    const script = completionScript(shell, commands);
    reporter.result(script, { shell, script });
  });
}

export function completionScript(shell: (typeof SHELLS)[number], commands: ReadonlyMap<string, string>): string {
  if (shell === "bash") return bashScript([...commands.keys()]);
  return shell === "zsh" ? zshScript(commands) : fishScript(commands);
}

/** Reads the help of a command, and prints each long flag on a line. `serve` takes those of tritonserver too. */
const LIST_FLAGS = "sed -nE 's/^ +(-[a-zA-Z], )?(--[a-zA-Z0-9_-]+).*/\\2/p'";

function bashScript(names: readonly string[]): string {
  return `# Completion of nereid for bash.
declare -gA _nereid_known
_nereid_flags() {
  [ -n "\${_nereid_known[$1]-}" ] || _nereid_known[$1]=$({ nereid "$1" --help; [ "$1" != serve ] || tritonserver --help; } 2>&1 | ${LIST_FLAGS} | sort -u)
}
_nereid() {
  local word=\${COMP_WORDS[COMP_CWORD]} command=\${COMP_WORDS[1]}
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W '${names.join(" ")}' -- "$word")
  elif [[ $word == -* ]]; then
    _nereid_flags "$command"
    mapfile -t COMPREPLY < <(compgen -W "\${_nereid_known[$command]}" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _nereid nereid`;
}

function zshScript(commands: ReadonlyMap<string, string>): string {
  const rows = [...commands].map(([name, summary]) => `    ${quoted(`${name}:${summary}`)}`);
  return `#compdef nereid
# Completion of nereid for zsh.
typeset -gA _nereid_known
_nereid() {
  local -a commands=(
${rows.join("\n")}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
  elif [[ $words[CURRENT] == -* ]]; then
    local command=$words[2]
    (( \${+_nereid_known[$command]} )) || _nereid_known[$command]=$({ nereid $command --help; [ $command != serve ] || tritonserver --help; } 2>&1 | ${LIST_FLAGS} | sort -u)
    compadd -- \${(f)_nereid_known[$command]}
  else
    _files
  fi
}
compdef _nereid nereid`;
}

function fishScript(commands: ReadonlyMap<string, string>): string {
  const rows = [...commands].map(
    ([name, summary]) => `complete -c nereid -n __fish_use_subcommand -f -a ${name} -d ${quoted(summary)}`,
  );
  return `# Completion of nereid for fish.
function __nereid_flags
    set -l words (commandline -opc)
    begin; nereid $words[2] --help; test $words[2] != serve; or tritonserver --help; end 2>&1 | ${LIST_FLAGS} | sort -u
end
${rows.join("\n")}
complete -c nereid -n 'not __fish_use_subcommand; and string match -q -- "-*" (commandline -ct)' -f -a '(__nereid_flags)'`;
}

/** In single quotes, in a form that zsh and fish read alike. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'"'"'`)}'`;
}
