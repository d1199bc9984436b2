#!/usr/bin/env node
// Writes abi/NAME.json, {"abi", "bytecode"}, of what Rust binds to or deploys, from a fresh build;
// --check fails if a file is out of date.
const { execFileSync } = require("child_process");
const fs = require("fs");
const path = require("path");

const root = path.join(__dirname, "..");
const sources = {
  RootChain: "RootChain.sol",
  TestERC20: "TestTokens.sol",
  TestERC721: "TestTokens.sol",
  TestERC1155: "TestTokens.sol",
};
const forge = path.join(__dirname, "forge");
execFileSync(forge, ["build", "src"], { cwd: root, stdio: ["ignore", "ignore", "inherit"] });

const check = process.argv.includes("--check");
let stale = 0;
for (const [name, source] of Object.entries(sources)) {
  const built = JSON.parse(fs.readFileSync(path.join(root, "out", source, `${name}.json`)));
  const entries = built.abi.map((entry) => "  " + JSON.stringify(entry)).join(",\n");
  const text = `{"abi":[\n${entries}\n],\n"bytecode":"${built.bytecode.object}"}\n`;
  const file = path.join(root, "abi", `${name}.json`);
  if (check && (!fs.existsSync(file) || fs.readFileSync(file, "utf8") !== text)) {
    console.error(`abi/${name}.json is out of date: npm run abi`);
    stale += 1;
  }
  if (!check) fs.writeFileSync(file, text);
}
process.exit(stale ? 1 : 0);
