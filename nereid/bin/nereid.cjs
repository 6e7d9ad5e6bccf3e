#!/usr/bin/env node
"use strict";
require("@nereid/server/bin/nereid.cjs");
