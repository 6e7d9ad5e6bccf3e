#!/usr/bin/env node
// The server under the name that existing start scripts call: the flags begin at once, without a command in front.
"use strict";
require("./start.cjs")("tritonserver", "serve", ({ serve }) => serve(process.argv.slice(2), { hints: false }));
