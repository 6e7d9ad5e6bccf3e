/**
 * Renders packaging/container/Dockerfile from the steps: `node --import tsx tools/container/dockerfile.ts`. A test
 * compares the file with it. Source: Dockerfile reference, version 1.
 */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { imageSettings, NODE_VERSION, type Step, stepsOf, type Target } from "./steps.ts";

export const DOCKERFILE: string = fileURLToPath(new URL("../../packaging/container/Dockerfile", import.meta.url));

/** Tools that the steps call on the building side. */
const BUILD_TOOLS = "python3 python3-pip ca-certificates";

export function renderDockerfile(): string {
  const shared = stepsOf("cpu").filter(({ name }) => name !== "sbom");
  const last = (target: Target): readonly Step[] => stepsOf(target).filter((step) => !shared.includes(step));
  return [
    "# syntax=docker/dockerfile:1",
    "# Rendered by tools/container/dockerfile.ts from tools/container/steps.ts: change the steps, then render again.",
    "#   docker build -f packaging/container/Dockerfile --target cpu -t nereid .",
    "#   docker build -f packaging/container/Dockerfile --target cuda -t nereid:cuda .",
    "",
    `FROM node:${NODE_VERSION}-bookworm-slim AS build`,
    "ARG TARGETARCH=amd64",
    "ENV ROOTFS=/image/rootfs SOURCE=/source PACKAGES=/packages",
    'SHELL ["/bin/bash", "-euo", "pipefail", "-c"]',
    `RUN apt-get update && apt-get install -y --no-install-recommends ${BUILD_TOOLS}`,
    "COPY . /source",
    "RUN cd /source && npm ci --no-audit --no-fund && npm run pack -- --out=/packages",
    "",
    "FROM build AS root",
    ...shared.flatMap(runLines),
    "",
    ...(["cpu", "cuda"] as const).flatMap((target) => [
      `FROM root AS root-${target}`,
      ...last(target).flatMap(runLines),
      "",
    ]),
    ...(["cuda", "cpu"] as const).flatMap((target) => [
      `FROM scratch AS ${target}`,
      `COPY --from=root-${target} /image/rootfs /`,
      ...settingLines(target),
      "",
    ]),
  ].join("\n");
}

function runLines({ purpose, script }: Step): readonly string[] {
  return [
    `# ${purpose}`,
    "RUN <<'STEP'",
    "set -euo pipefail",
    "ARCH=$(echo $TARGETARCH | sed s/amd64/x64/)",
    script,
    "STEP",
  ];
}

function settingLines(target: Target): readonly string[] {
  const { env, labels, entrypoint, command, healthcheck, ports, user, workFolder, stopSignal } = imageSettings(target);
  const pairs = (values: Readonly<Record<string, string>>): string =>
    Object.entries(values)
      .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
      .join(" \\\n    ");
  return [
    `ENV ${pairs(env)}`,
    `LABEL ${pairs(labels)}`,
    `WORKDIR ${workFolder}`,
    `USER ${user}`,
    `EXPOSE ${ports.join(" ")}`,
    `STOPSIGNAL ${stopSignal}`,
    `HEALTHCHECK --interval=10s --timeout=5s --start-period=5m CMD ${JSON.stringify(healthcheck)}`,
    `ENTRYPOINT ${JSON.stringify(entrypoint)}`,
    `CMD ${JSON.stringify(command)}`,
  ];
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) writeFileSync(DOCKERFILE, renderDockerfile());
