#!/usr/bin/env node
// The server under the name that existing start scripts call: the flags begin at once, without a command in front.
"use strict";
const load = () => import("../dist/src/cli/serve.js");
require("./start.cjs")("tritonserver", load, ({ serve }) => serve(process.argv.slice(2), { hints: false }));
