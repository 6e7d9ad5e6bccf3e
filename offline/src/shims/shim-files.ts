/**
 * The files that `nereid shims` writes: thin programs under the names of TensorRT-LLM, Triton and the hub's tools, alone
 * and where clones of their repositories have them. Pure. Source: the layouts of TensorRT-LLM v0.5 to v1.0 and of
 * tensorrtllm_backend v0.5 to v0.16.
 */

export interface ShimFile {
  /** Below the folder of the shims. */
  readonly path: string;
  readonly text: string;
  readonly isProgram: boolean;
}

export interface Programs {
  /** Program and arguments that stand for `nereid`. */
  readonly nereid: readonly string[];
  /** The same for `tritonserver`. */
  readonly tritonserver: readonly string[];
}

/** Stands in each file, so that a second run replaces no file of others. */
export const SHIM_MARK = "Written by nereid shims";
/** Folders of the five template models in clones. */
export const TEMPLATE_FOLDERS: readonly string[] = [
  "tensorrtllm_backend/all_models/inflight_batcher_llm",
  "TensorRT-LLM/triton_backend/all_models/inflight_batcher_llm",
];

const EXAMPLES = "TensorRT-LLM/examples";
const FAMILIES = ["gemma", "gpt", "llama", "mixtral", "phi", "qwen"];

/** Python scripts: the command of nereid, and their places in clones. */
const SCRIPTS: Readonly<Record<string, { readonly command: string; readonly places: readonly string[] }>> = {
  "convert_checkpoint.py": {
    command: "convert-checkpoint",
    places: FAMILIES.flatMap((family) => [`${EXAMPLES}/${family}`, `${EXAMPLES}/models/core/${family}`]),
  },
  "quantize.py": { command: "quantize", places: [`${EXAMPLES}/quantization`] },
  "run.py": { command: "run --engine_dir=engine_outputs", places: [EXAMPLES] },
  "summarize.py": { command: "summarize", places: [EXAMPLES] },
  "fill_template.py": {
    command: "fill-template",
    places: ["tensorrtllm_backend/tools", "TensorRT-LLM/triton_backend/tools"],
  },
};
/** The original returns at once, with the server in the background: scripts wait for its port. */
const LAUNCH_SCRIPT = "launch_triton_server.py";
const LAUNCH_PLACES = ["tensorrtllm_backend/scripts", "TensorRT-LLM/triton_backend/scripts"];

export function shimFiles({ nereid, tritonserver }: Programs): readonly ShimFile[] {
  const command = (words: string): string => `${shellWords(nereid)} ${words}`;
  const programs: [string, string][] = [
    ["trtllm-build", shellText(`exec ${command("build")} "$@"`)],
    ["trtexec", shellText(`exec ${command("trtexec")} "$@"`)],
    ["tritonserver", shellText(`exec ${shellWords(tritonserver)} "$@"`)],
    ["huggingface-cli", hubText(command("download"), command("--version"))],
    ["hf", hubText(command("download"), command("--version"))],
  ];
  const scripts = Object.entries(SCRIPTS).map(([name, { command: words, places }]) => ({
    name,
    places,
    text: scriptText(`exec ${command(words)} "$@"`, [...nereid, ...words.split(" ")], "os.execv(COMMAND[0], COMMAND)"),
  }));
  const launch = {
    name: LAUNCH_SCRIPT,
    places: LAUNCH_PLACES,
    text: scriptText(`${command("launch")} "$@" &`, [...nereid, "launch"], "subprocess.Popen(COMMAND)"),
  };
  return [
    ...programs.map(([path, text]) => ({ path, text, isProgram: true })),
    ...[...scripts, launch].flatMap(({ name, places, text }) =>
      [name, ...places.map((place) => `${place}/${name}`)].map((path) => ({ path, text, isProgram: true })),
    ),
    { path: "python/huggingface_hub.py", text: hubModule(nereid), isProgram: false },
  ];
}

function shellText(body: string): string {
  return `#!/bin/sh\n# ${SHIM_MARK}.\n${body}\n`;
}

/** Runs by `python3 NAME` and by its own name: a shell sees the lines up to `exit`, Python a string in their place. */
function scriptText(shell: string, argv: readonly string[], start: string): string {
  return `#!/bin/sh
''':'
# ${SHIM_MARK}.
${shell}
exit
'''
import os, subprocess, sys

COMMAND = ${JSON.stringify(argv)} + sys.argv[1:]
${start}
`;
}

function hubText(download: string, version: string): string {
  return shellText(`case "\${1-}" in
download) shift; exec ${download} "$@" ;;
version|--version|env) exec ${version} ;;
login|auth) echo "$(basename "$0"): there is nothing to log in to: set HF_TOKEN, or write the token to ~/.cache/huggingface/token" >&2; exit 1 ;;
*) echo "$(basename "$0"): only 'download' is here, got '\${1-}'; for the others: pip install huggingface_hub" >&2; exit 2 ;;
esac`);
}

/** For scripts that call the hub's library. It is on no path by itself: it would hide the real one from transformers. */
function hubModule(nereid: readonly string[]): string {
  return `"""snapshot_download() and hf_hub_download() by nereid download. ${SHIM_MARK}."""
import os, subprocess

COMMAND = ${JSON.stringify(nereid)} + ["download"]


def _names(value):
    return [value] if isinstance(value, str) else list(value or [])


def snapshot_download(repo_id, *, repo_type=None, revision=None, cache_dir=None, local_dir=None, token=None,
                      allow_patterns=None, ignore_patterns=None, max_workers=8, local_files_only=False, **ignored):
    """The folder with the files, as huggingface_hub returns it."""
    flags = [] if repo_type is None else ["--repo-type", repo_type]
    for name, value in (("revision", revision), ("cache-dir", cache_dir), ("local-dir", local_dir)):
        flags += [] if value is None else ["--" + name, str(value)]
    flags += ["--max-workers", str(max_workers)] + (["--offline"] if local_files_only else [])
    for name, patterns in (("include", allow_patterns), ("exclude", ignore_patterns)):
        flags += ["--" + name, *_names(patterns)] if _names(patterns) else []
    env = {**os.environ, **({"HF_TOKEN": token} if isinstance(token, str) else {})}
    done = subprocess.run(COMMAND + [repo_id] + flags, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip().split("\\n")[-1]


def hf_hub_download(repo_id, filename, **options):
    return os.path.join(snapshot_download(repo_id, allow_patterns=[filename], **options), filename)
`;
}

/** Quoted for sh, in a form that is also inside of Python's triple quotes. */
function shellWords(words: readonly string[]): string {
  return words.map((word) => `'${word.replaceAll("'", `'"'"'`)}'`).join(" ");
}
