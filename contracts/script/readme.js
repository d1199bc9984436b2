#!/usr/bin/env node
// Fails if README.md names a test, as `Contract.test_name`, that is not in test/.
const fs = require("fs");
const path = require("path");

const root = path.join(__dirname, "..");
const known = new Set();
for (const name of fs.readdirSync(path.join(root, "test"))) {
  let contract = "";
  for (const line of fs.readFileSync(path.join(root, "test", name), "utf8").split("\n")) {
    contract = line.match(/^contract (\w+)/)?.[1] ?? contract;
    const test = line.match(/function ((?:test|invariant)_\w+)/)?.[1];
    if (test) known.add(`${contract.replace(/Test$/, "")}.${test}`);
  }
}
const readme = fs.readFileSync(path.join(root, "README.md"), "utf8");
const named = readme.match(/\w+\.(?:test|invariant)_\w+/g) ?? [];
const missing = named.filter((name) => !known.has(name));
for (const name of missing) console.error(`README.md: no test ${name}`);
process.exit(missing.length || !named.length ? 1 : 0);
