/** Packages of libllama for GPUs. @see findGpuPackage */
export { findGpuPackage, type GpuPackageSearch } from "../../native/llama/gpu-packages.ts";
