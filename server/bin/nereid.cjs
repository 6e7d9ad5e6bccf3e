#!/usr/bin/env node
"use strict";
require("./start.cjs")("nereid", "nereid", ({ main }) => main(process.argv.slice(2)));
