#!/usr/bin/env node
"use strict";
const load = () => import("../dist/src/cli/nereid.js");
require("./start.cjs")("nereid", load, ({ main }) => main(process.argv.slice(2)));
