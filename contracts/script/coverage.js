#!/usr/bin/env node
// Measures how much of src/ the tests reach, writes the table of README.md, and fails, naming the
// places, unless it is everything but the exceptions that README.md names, by their source line.
// forge counts what an `if` does and what its `else` does; where there is no `else`, "not" is
// counted here: the line was reached more often than the branch.
const { spawnSync } = require("child_process");
const fs = require("fs");
const path = require("path");

const root = path.join(__dirname, "..");
const lcov = path.join(root, "out/lcov.info");
const args = ["coverage", "--report", "lcov", "--report-file", lcov];
// Gas and code size are those of the optimized contract.
args.push("--no-match-contract", "GasTest", "--no-match-test", "test_codeSize");
args.push("--no-match-coverage", "^(test|node_modules|src/test)/");
const env = { ...process.env, FOUNDRY_PROFILE: "test" };
const forge = path.join(__dirname, "forge");
const ran = spawnSync(forge, args, { cwd: root, env, stdio: ["ignore", "ignore", "inherit"] });
if (ran.status !== 0) {
  console.error("coverage: forge coverage failed; npm test says why");
  process.exit(2);
}

const readme = path.join(root, "README.md");
const [before, rest] = fs.readFileSync(readme, "utf8").split("<!-- coverage -->\n");
const after = rest.slice(rest.indexOf("<!-- end of coverage -->"));
const excepted = [...after.matchAll(/^\| ``(.*?)`` \|/gm)].map((found) => found[1]);

const missed = [];
const rows = [];
let total = [0, 0, 0, 0];
for (const record of fs.readFileSync(lcov, "utf8").split("end_of_record\n").filter(Boolean)) {
  const file = record.match(/^SF:(.*)$/m)[1];
  const all = (pattern) => [...record.matchAll(pattern)].map((found) => found.slice(1));
  const lines = new Map(all(/^DA:(\d+),(\d+)/gm).map(([line, n]) => [line, Number(n)]));
  const branches = all(/^BRDA:(\d+),(\d+),\d+,(\S+)/gm);
  const outcomes = branches.map(([line, , n]) => [line, Number(n) || 0]);
  for (const [line, block, n] of branches) {
    const alone = branches.filter((other) => other[1] === block).length === 1;
    if (alone) outcomes.push([line, lines.get(line) - (Number(n) || 0)]);
  }
  const source = fs.readFileSync(path.join(root, file), "utf8").split("\n");
  const some = (list, what) => list.filter(([line, n]) => {
    const code = source[line - 1].trim();
    if (n > 0) return true;
    if (!excepted.includes(code)) missed.push(`${file}:${line}: no ${what}: ${code}`);
    return false;
  });
  const reached = [some([...lines], "line").length, lines.size];
  const taken = [some(outcomes, "branch").length, outcomes.length];
  total = total.map((sum, i) => sum + [...reached, ...taken][i]);
  rows.push([file, ...reached, ...taken]);
}
rows.push(["all", ...total]);
const cells = rows.map(([f, a, b, c, d]) => `| ${f} | ${a} of ${b} | ${c} of ${d} |`);
const table = ["| file | lines | branches |", "|---|---|---|", ...cells].join("\n");
console.log(table);
fs.writeFileSync(readme, `${before}<!-- coverage -->\n${table}\n${after}`);
for (const place of missed) console.error(place);
process.exit(missed.length ? 1 : 0);
