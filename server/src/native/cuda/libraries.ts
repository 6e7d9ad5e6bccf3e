/**
 * Finds NVIDIA's libraries: folders named by the user, linker search path, Python packages, toolkit, system. Does not
 * load them.
 */

import { readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import type { Environment } from "../../core/environment.ts";

export type CudaLibraryName = "driver" | "nvrtc" | "cublaslt" | "nccl" | "nvml";

interface CudaLibrarySpec {
  readonly title: string;
  /** File names by version, best first. These are the versions whose signatures Nereid knows. */
  readonly fileNames: readonly string[];
  /** Folders inside a Python package folder. */
  readonly packages: readonly string[];
  /** Package or product to install when it is missing. */
  readonly remedy: string;
}

const SPECS: Readonly<Record<CudaLibraryName, CudaLibrarySpec>> = {
  driver: {
    title: "the CUDA driver",
    fileNames: ["libcuda.so.1"],
    packages: [],
    remedy: "install NVIDIA's driver, or start the container with its GPUs",
  },
  nvrtc: {
    title: "NVRTC",
    fileNames: ["libnvrtc.so.13", "libnvrtc.so.12"],
    packages: ["cu13/lib", "cuda_nvrtc/lib"],
    remedy: "install the CUDA toolkit, or pip install nvidia-cuda-nvrtc",
  },
  cublaslt: {
    title: "cuBLASLt",
    fileNames: ["libcublasLt.so.13", "libcublasLt.so.12"],
    packages: ["cu13/lib", "cublas/lib"],
    remedy: "install the CUDA toolkit, or pip install nvidia-cublas",
  },
  nccl: {
    title: "NCCL",
    fileNames: ["libnccl.so.2"],
    packages: ["nccl/lib"],
    remedy: "pip install nvidia-nccl-cu13; only several GPUs need it",
  },
  nvml: {
    title: "NVML",
    fileNames: ["libnvidia-ml.so.1"],
    packages: [],
    remedy: "install NVIDIA's driver, or start the container with the capability 'utility'",
  },
};

/** Folders in which containers and distributions install the driver's libraries. */
const SYSTEM_FOLDERS: readonly string[] = [
  "/usr/lib/x86_64-linux-gnu",
  "/usr/lib/aarch64-linux-gnu",
  "/usr/lib64",
  "/usr/local/nvidia/lib64",
  "/usr/local/nvidia/lib",
  "/usr/lib/wsl/lib",
  "/usr/lib",
];
const TOOLKIT_FOLDERS: readonly string[] = ["lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib"];

export interface CudaSearch {
  readonly environment: Environment;
  /** Names in a folder; empty when there is none. */
  list(folder: string): readonly string[];
  isFile(path: string): boolean;
}

export interface FoundLibrary {
  readonly name: CudaLibraryName;
  /** Undefined: not found. */
  readonly path: string | undefined;
  readonly searched: readonly string[];
}

/** Searches one library. `NEREID_CUDA_LIBRARIES` (folders, separated by ":") has precedence. */
export function findCudaLibrary(name: CudaLibraryName, lookUp: CudaSearch = thisMachine()): FoundLibrary {
  const { fileNames, packages } = SPECS[name];
  const folders = [...new Set(searchFolders(lookUp, packages))];
  for (const folder of folders) {
    for (const fileName of fileNames) {
      const path = join(folder, fileName);
      if (lookUp.isFile(path)) return { name, path, searched: folders };
    }
  }
  return { name, path: undefined, searched: folders };
}

/** @throws Error with the searched folders and what to install */
export function expectCudaLibrary(name: CudaLibraryName, lookUp: CudaSearch = thisMachine()): string {
  const { path, searched } = findCudaLibrary(name, lookUp);
  if (path !== undefined) return path;
  const { title, fileNames, remedy } = SPECS[name];
  throw new Error(
    `${title} is missing: found no ${fileNames.join(" or ")} in ${searched.join(", ")}; ` +
      `${remedy}, or name its folder in NEREID_CUDA_LIBRARIES`,
  );
}

/**
 * Folders inside a Python package folder that hold dependencies: the toolkit as one package, or one package per
 * library.
 */
const ALL_PACKAGES: readonly string[] = [
  "cu13/lib",
  ...["cublas", "cuda_runtime", "cuda_nvrtc", "cudnn", "cufft", "curand", "nvjitlink"].map((name) => `${name}/lib`),
];

/** Any file of CUDA's libraries, by its name. */
export function findCudaFile(fileName: string, lookUp: CudaSearch = thisMachine()): string | undefined {
  for (const folder of searchFolders(lookUp, ALL_PACKAGES)) {
    const path = join(folder, fileName);
    if (lookUp.isFile(path)) return path;
  }
  return undefined;
}

/** Log lines about all libraries, one per library. */
export function describeCudaLibraries(lookUp: CudaSearch = thisMachine()): readonly string[] {
  return (Object.keys(SPECS) as CudaLibraryName[]).map((name) => {
    const { path, searched } = findCudaLibrary(name, lookUp);
    return `${SPECS[name].title}: ${path ?? `not found in ${searched.length} folders (${SPECS[name].remedy})`}`;
  });
}

function* searchFolders(lookUp: CudaSearch, packages: readonly string[]): Generator<string> {
  const { environment } = lookUp;
  yield* splitPath(environment.NEREID_CUDA_LIBRARIES);
  yield* splitPath(environment.LD_LIBRARY_PATH);
  for (const root of toolkits(lookUp)) for (const folder of TOOLKIT_FOLDERS) yield join(root, folder);
  for (const root of pythonPackages(lookUp)) for (const folder of packages) yield join(root, "nvidia", folder);
  yield* SYSTEM_FOLDERS;
}

function* toolkits({ environment, list }: CudaSearch): Generator<string> {
  for (const root of [environment.CUDA_HOME, environment.CUDA_PATH]) if (root !== undefined && root !== "") yield root;
  yield "/usr/local/cuda";
  const versions = list("/usr/local").filter((name) => name.startsWith("cuda-"));
  versions.sort((a, b) => b.localeCompare(a, "en", { numeric: true }));
  for (const name of versions) yield join("/usr/local", name);
}

/** Package folders of active Python environments and those on the path. */
function* pythonPackages({ environment, list, isFile }: CudaSearch): Generator<string> {
  const { VIRTUAL_ENV } = environment;
  const roots = VIRTUAL_ENV === undefined || VIRTUAL_ENV === "" ? [] : [VIRTUAL_ENV];
  for (const folder of splitPath(environment.PATH)) if (isFile(join(folder, "python3"))) roots.push(dirname(folder));
  for (const root of roots) {
    for (const python of list(join(root, "lib")).filter((name) => name.startsWith("python3"))) {
      yield join(root, "lib", python, "site-packages");
      yield join(root, "lib", python, "dist-packages");
    }
  }
}

function splitPath(value: string | undefined): readonly string[] {
  return (value ?? "").split(":").filter((folder) => folder.startsWith("/"));
}

function thisMachine(): CudaSearch {
  return {
    environment: process.env,
    list: (folder) => {
      try {
        return readdirSync(folder);
      } catch {
        return [];
      }
    },
    isFile: (path) => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false,
  };
}
