import assert from "node:assert/strict";
import { test } from "node:test";
import { mergePages } from "./merge-pages.ts";

const PAGE = `# HELP a Help of a
# TYPE a counter
a{model="m {x}",version="1"} 3
# HELP b Help
# TYPE b gauge
b 0.5
`;

test("mergePages() gives each series the label of its worker, and each family one head", () => {
  const page = mergePages(
    [
      [1, PAGE],
      [2, `${PAGE}# HELP c Only here\n# TYPE c gauge\nc 1\n`],
    ],
    2,
  );
  assert.equal(
    page,
    `# HELP a Help of a
# TYPE a counter
a{worker="1",model="m {x}",version="1"} 3
a{worker="2",model="m {x}",version="1"} 3
# HELP b Help
# TYPE b gauge
b{worker="1"} 0.5
b{worker="2"} 0.5
# HELP c Only here
# TYPE c gauge
c{worker="2"} 1
`,
  );
});

test("mergePages() leaves the page of a single worker as it is", () => {
  assert.equal(mergePages([[1, PAGE]], 1), PAGE);
  assert.equal(mergePages([], 1), "");
});
