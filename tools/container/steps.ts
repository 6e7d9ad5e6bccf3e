/**
 * The steps that make the root file system of the container image, and the settings of the image. The Dockerfile is
 * rendered from them, and `npm run image` runs the same scripts without a daemon. Pure.
 *
 * Sources: layout, ports and variables of the image nvcr.io/nvidia/tritonserver; Debian Policy for the file system;
 * the OCI image specification 1.1 for the settings.
 */

export interface Step {
  readonly name: string;
  /** For people: why the step is there. */
  readonly purpose: string;
  /**
   * POSIX shell. `$ROOTFS` is the root to fill, `$SOURCE` this repository, `$PACKAGES` the tarballs of `npm run pack`,
   * `$ARCH` is x64 or arm64.
   */
  readonly script: string;
}

export type Target = "cpu" | "cuda";

export const NODE_VERSION = "24.9.0";
/** uid and gid of `triton-server` in NVIDIA's image. */
export const USER_ID = 1000;

/** Server, Python models with numpy, and a shell with the tools that probes and scripts call. */
const DEBIAN_PACKAGES = [
  ...["base-files", "netbase", "ca-certificates", "media-types"],
  ...["libc6", "libgcc-s1", "libstdc++6", "libgomp1", "zlib1g"],
  ...["dash", "bash", "libtinfo6", "coreutils", "libacl1", "libattr1", "libselinux1", "libpcre2-8-0", "libgmp10"],
  ...["sed", "grep"],
  ...["python3-minimal", "python3", "python3.11-minimal", "python3.11", "libpython3-stdlib"],
  ...["libpython3.11-minimal", "libpython3.11-stdlib", "libexpat1", "libssl3", "libbz2-1.0", "libffi8", "liblzma5"],
  ...["libsqlite3-0", "libuuid1", "libreadline8", "libncursesw6", "libcrypt1"],
  ...["python3-numpy", "python3-pkg-resources", "libblas3", "liblapack3", "libgfortran5", "libquadmath0"],
];
const NOT_NEEDED = ["./usr/share/man/*", "./usr/share/locale/*", "./usr/share/info/*", "./usr/share/lintian/*"];

const DEBIAN: Step = {
  name: "debian",
  purpose: "Debian packages, unpacked without their scripts; scanners read the control files in status.d",
  script: `for name in bin sbin lib lib64; do mkdir -p "$ROOTFS/usr/$name"; ln -sfn "usr/$name" "$ROOTFS/$name"; done
mkdir -p "$ROOTFS/var/lib/dpkg/status.d" "$ROOTFS/../debs"
cd "$ROOTFS/../debs"
apt-get download -qq ${DEBIAN_PACKAGES.join(" ")}
for deb in *.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$ROOTFS" --keep-directory-symlink ${NOT_NEEDED.map((path) => `--exclude='${path}'`).join(" ")}
  dpkg-deb --field "$deb" > "$ROOTFS/var/lib/dpkg/status.d/\${deb%%_*}"
done
rm -r "$ROOTFS/../debs"
ln -sf bash "$ROOTFS/usr/bin/sh"
# Packages of mathematics pick their library by scripts that do not run here.
folder="$(echo "$ROOTFS"/usr/lib/*-linux-gnu)"
ln -sf blas/libblas.so.3 "$folder/libblas.so.3"
ln -sf lapack/liblapack.so.3 "$folder/liblapack.so.3"`,
};

const SYSTEM: Step = {
  name: "system",
  purpose: "users, certificates, and the folders that are mounted",
  script: `cat > "$ROOTFS/etc/passwd" <<'END'
root:x:0:0:root:/root:/bin/bash
triton-server:x:${USER_ID}:${USER_ID}:triton-server:/home/triton-server:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
END
cat > "$ROOTFS/etc/group" <<'END'
root:x:0:
triton-server:x:${USER_ID}:
nogroup:x:65534:
END
echo 'hosts: files dns' > "$ROOTFS/etc/nsswitch.conf"
mkdir -p "$ROOTFS/etc/ssl/certs"
cat "$ROOTFS"/usr/share/ca-certificates/mozilla/*.crt > "$ROOTFS/etc/ssl/certs/ca-certificates.crt"
mkdir -p "$ROOTFS/tmp" "$ROOTFS/models" "$ROOTFS/files" "$ROOTFS/home/triton-server" "$ROOTFS/proc" "$ROOTFS/sys" "$ROOTFS/dev" "$ROOTFS/run"
chmod 1777 "$ROOTFS/tmp"`,
};

const NODE: Step = {
  name: "node",
  purpose: "Node.js, of the package that npm checks by its hash",
  script: `mkdir -p "$ROOTFS/../node" "$ROOTFS/usr/local/bin"
cd "$ROOTFS/../node"
npm pack --silent "node-linux-$ARCH@${NODE_VERSION}" > name
tar -xzf "$(cat name)"
install -m 755 package/bin/node "$ROOTFS/usr/local/bin/node"
mkdir -p "$ROOTFS/usr/share/doc/nodejs"
cp package/LICENSE "$ROOTFS/usr/share/doc/nodejs/"
rm -r "$ROOTFS/../node"`,
};

const NEREID: Step = {
  name: "nereid",
  purpose: "the packages as users install them, for the platform of the image",
  script: `mkdir -p "$ROOTFS/opt/nereid"
rm -f "$ROOTFS/opt/nereid/package.json"
packages="$(ls "$PACKAGES"/nereid-*.tgz | grep -v onnxruntime) $PACKAGES/nereid-onnxruntime-linux-$ARCH-0.1.0.tgz"
npm install --prefix "$ROOTFS/opt/nereid" --omit=dev --no-audit --no-fund --os=linux --cpu="$ARCH" --libc=glibc --ignore-scripts --loglevel=error $packages
find "$ROOTFS/opt/nereid/node_modules" -type f \\( -name '*.map' -o -name '*.d.ts' -o -name '*.md' \\) ! -path '*model-api*' -delete`,
};

const LAYOUT: Step = {
  name: "layout",
  purpose: "the paths of NVIDIA's image, so that start scripts and manifests need no change",
  script: `mkdir -p "$ROOTFS/opt/tritonserver/bin" "$ROOTFS/opt/tritonserver/backends" "$ROOTFS/opt/nvidia/entrypoint.d"
install -m 755 "$SOURCE/packaging/container/tritonserver.sh" "$ROOTFS/opt/tritonserver/bin/tritonserver"
install -m 755 "$SOURCE/packaging/container/nereid.sh" "$ROOTFS/usr/local/bin/nereid"
install -m 755 "$SOURCE/packaging/container/entrypoint.sh" "$ROOTFS/opt/nvidia/nvidia_entrypoint.sh"
install -m 644 "$SOURCE/packaging/container/healthcheck.cjs" "$ROOTFS/opt/nereid/healthcheck.cjs"
cp "$SOURCE/LICENSE" "$SOURCE/NOTICE" "$ROOTFS/opt/tritonserver/"
for backend in onnxruntime python tensorrtllm; do mkdir -p "$ROOTFS/opt/tritonserver/backends/$backend"; done
chroot "$ROOTFS" /usr/local/bin/nereid shims --quiet /opt/nereid/shims > /dev/null
rm "$ROOTFS/opt/nereid/shims/tritonserver"
ln -sfn nereid/shims/tensorrtllm_backend "$ROOTFS/opt/tensorrtllm_backend"
ln -sfn opt/nereid/shims/tensorrtllm_backend "$ROOTFS/tensorrtllm_backend"
ln -sfn tensorrtllm_backend/scripts "$ROOTFS/opt/scripts"
ln -sfn tensorrtllm_backend/tools "$ROOTFS/opt/tools"
mkdir -p "$ROOTFS/app"
for folder in all_models scripts tools; do ln -sfn "/opt/tensorrtllm_backend/$folder" "$ROOTFS/app/$folder"; done
ln -sfn /opt/nereid/shims/TensorRT-LLM/examples "$ROOTFS/app/examples"`,
};

const SBOM: Step = {
  name: "sbom",
  purpose: "the list of all that is in the image, as SPDX",
  script: `mkdir -p "$ROOTFS/opt/nereid"
node --import "file://$SOURCE/node_modules/tsx/dist/loader.mjs" "$SOURCE/tools/container/write-sbom.ts" "$ROOTFS" > "$ROOTFS/opt/nereid/sbom.spdx.json"`,
};

const CUDA_FOLDER = "/opt/nvidia/lib";
const CUDA: Step = {
  name: "cuda",
  purpose: "NVRTC, cuBLAS and NCCL of NVIDIA's wheels; the driver comes from the host",
  script: `mkdir -p "$ROOTFS/../wheels" "$ROOTFS${CUDA_FOLDER}"
cd "$ROOTFS/../wheels"
python3 -m pip download --quiet --no-deps --only-binary=:all: nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-cublas-cu12==12.9.1.4 nvidia-nccl-cu12==2.27.5
for wheel in *.whl; do
  python3 -m zipfile -e "$wheel" unpacked
done
find unpacked -name 'lib*.so*' -exec cp {} "$ROOTFS${CUDA_FOLDER}/" \\;
mkdir -p "$ROOTFS/usr/share/doc/cuda"
for info in unpacked/*.dist-info; do cp -r "$info" "$ROOTFS/usr/share/doc/cuda/"; done
rm -r "$ROOTFS/../wheels"`,
};

export function stepsOf(target: Target): readonly Step[] {
  return [DEBIAN, SYSTEM, NODE, NEREID, LAYOUT, ...(target === "cuda" ? [CUDA] : []), SBOM];
}

export interface ImageSettings {
  readonly env: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly healthcheck: readonly string[];
  readonly ports: readonly number[];
  readonly user: string;
  readonly workFolder: string;
  readonly stopSignal: string;
}

export function imageSettings(target: Target): ImageSettings {
  return {
    env: {
      PATH: "/opt/tritonserver/bin:/opt/nereid/shims:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
      LANG: "C.UTF-8",
      // The root file system may be read-only: all that is written by default goes below /tmp.
      HOME: "/home/triton-server",
      XDG_CACHE_HOME: "/tmp/.cache",
      HF_HOME: "/tmp/.cache/huggingface",
      NODE_COMPILE_CACHE: "/tmp/.cache/node",
      SSL_CERT_FILE: "/etc/ssl/certs/ca-certificates.crt",
      TRITON_SERVER_USER: "triton-server",
      TRITON_SERVER_VERSION: "2.70.0",
      TRITON_SERVER_GPU_ENABLED: target === "cuda" ? "1" : "0",
      NVIDIA_PRODUCT_NAME: "Triton Server",
      ...(target === "cuda"
        ? {
            NVIDIA_VISIBLE_DEVICES: "all",
            NVIDIA_DRIVER_CAPABILITIES: "compute,utility",
            NEREID_CUDA_LIBRARIES: CUDA_FOLDER,
          }
        : {}),
    },
    labels: {
      "org.opencontainers.image.title": target === "cuda" ? "nereid with CUDA libraries" : "nereid",
      "org.opencontainers.image.licenses": "Apache-2.0",
      "org.opencontainers.image.version": "0.1.0",
    },
    entrypoint: ["/opt/nvidia/nvidia_entrypoint.sh"],
    command: ["tritonserver", "--model-repository=/models"],
    healthcheck: ["/usr/local/bin/node", "/opt/nereid/healthcheck.cjs"],
    ports: [8000, 8001, 8002],
    user: `${USER_ID}:${USER_ID}`,
    workFolder: "/opt/tritonserver",
    stopSignal: "SIGTERM",
  };
}
