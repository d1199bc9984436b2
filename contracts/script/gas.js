#!/usr/bin/env node
// Measures the gas of every function, writes snapshots/GasTest.json, which npm test compares, and
// the table of README.md.
const { execFileSync } = require("child_process");
const fs = require("fs");
const path = require("path");

const root = path.join(__dirname, "..");
const env = { ...process.env, FORGE_SNAPSHOT_CHECK: "false" };
const args = ["test", "--", "--match-contract", "GasTest"];
execFileSync("npm", args, { cwd: root, env, stdio: ["ignore", "ignore", "inherit"] });

const figures = JSON.parse(fs.readFileSync(path.join(root, "snapshots/GasTest.json")));
const rows = Object.entries(figures).map(
  ([what, gas]) => `| ${what} | ${Number(gas).toLocaleString("en-US")} |`,
);
const table = ["| transaction | gas |", "|---|---|", ...rows].join("\n");
const readme = path.join(root, "README.md");
const [before, rest] = fs.readFileSync(readme, "utf8").split("<!-- gas -->\n");
const after = rest.slice(rest.indexOf("<!-- end of gas -->"));
fs.writeFileSync(readme, `${before}<!-- gas -->\n${table}\n${after}`);
