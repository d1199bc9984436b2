//! The rules of the house (architecture.md, "Style"), as functions from a file to findings.
//!
//! `repository` reads the files that git knows or would add. Nothing is written. A rule that
//! clippy or rustfmt can check is not here (function length: clippy's `too_many_lines`).

use std::fmt;
use std::path::Path;
use std::process::Command;

use crate::source::{Source, is_word};

/// Columns of a line in a Rust file.
const LINE_COLUMNS_MAX: usize = 100;
/// Lines of a Rust file without its tests.
const FILE_LINES_MAX: usize = 600;
/// How far above a call its `INVARIANT:` comment may start.
const INVARIANT_LINES_ABOVE: usize = 4;

/// The visible names at the top of the repository; the rest are dotfiles.
const TOP_LEVEL: [&str; 11] = [
    "Cargo.toml",
    "src",
    "cometbft-config",
    "contracts",
    "e2e",
    "qa",
    "scripts",
    "README.md",
    "Cargo.lock",
    "LICENSE",
    "rust-toolchain.toml",
];

/// Which of our crates each manifest may name in `[dependencies]` (architecture.md, "Layout").
const IMPORTS: [(&str, &[&str]); 14] = [
    ("src/core", &[]),
    ("src/store", &[]),
    ("src/ledger", &["core"]),
    ("src/client", &["core"]),
    ("src/pool", &["core", "ledger"]),
    ("src/abci", &["core", "ledger", "store", "pool"]),
    ("src/rootchain", &["core", "client"]),
    ("src/api", &["core", "ledger", "pool"]),
    ("src/node", &["core", "store", "ledger", "client", "pool", "abci", "rootchain", "api"]),
    ("src/testkit", &["core", "ledger", "store", "abci"]),
    // abci: the call grammar, against which the calls of real nodes are checked.
    ("e2e", &["core", "client", "rootchain", "abci"]),
    ("qa", &["core", "client"]),
    ("scripts", &[]),
    ("", &["node"]),
];

/// Macros that mark unfinished work.
const UNFINISHED: [&str; 3] = ["todo!", "dbg!", "unimplemented!"];

/// Calls that end the process when they fail.
const PANICKING: [&str; 2] = [".unwrap()", ".expect("];

/// What the pure crates (`src/core`, `src/ledger`) may not see: file, socket, clock,
/// thread, chance, floating point.
const IMPURE: [&str; 9] = [
    "std::fs",
    "std::net",
    "std::thread",
    "std::time",
    "SystemTime",
    "Instant",
    "rand::",
    "f32",
    "f64",
];

/// Folders of one developer's or one CI's machine. Split, so that this file passes its own rule.
const MACHINE_PATHS: [&str; 3] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Hosts of package registries; which one serves a package is the machine's affair,
/// not the repository's.
const REGISTRY_HOSTS: [&str; 8] = [
    concat!("registry.npm", "js.org"),
    concat!("proxy.go", "lang.org"),
    concat!("sum.go", "lang.org"),
    concat!("static.crates", ".io"),
    concat!("index.crates", ".io"),
    concat!("files.python", "hosted.org"),
    concat!("pypi", ".org"),
    concat!("repo1.", "maven.org"),
];

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, from the root of the repository.
    pub path: String,
    /// The line, from 1; 0 if the whole file is meant.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Checks every file under `root` that git tracks or would add.
///
/// # Errors
/// If git cannot be run or a listed file cannot be read.
pub fn repository(root: &Path) -> std::io::Result<Vec<Finding>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()?;
    if !listed.status.success() {
        let reason = String::from_utf8_lossy(&listed.stderr).into_owned();
        return Err(std::io::Error::other(format!("git ls-files: {reason}")));
    }
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut findings = Vec::new();
    for path in names.split_terminator('\0') {
        let file = root.join(path);
        // A file deleted but not yet staged is still listed; a link is its target's affair.
        if !file.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            continue;
        }
        // Binary files have no lines.
        if let Ok(text) = String::from_utf8(std::fs::read(&file)?) {
            findings.extend(check(path, &text));
        }
    }
    Ok(findings)
}

/// Checks one file against all rules that apply to its name.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut report = Report { path, findings: Vec::new() };
    top_level(&mut report);
    machine_names(&mut report, text);
    if path == "Cargo.toml" || path.ends_with("/Cargo.toml") {
        imports(&mut report, text);
    }
    if path.ends_with(".rs") {
        let source = Source::new(text, is_test_path(path));
        shape(&mut report, &source);
        unfinished(&mut report, &source);
        panics(&mut report, &source);
        sleeps(&mut report, &source);
        purity(&mut report, &source);
    }
    report.findings
}

/// The findings of one file while they are collected.
struct Report<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl Report<'_> {
    /// Adds a finding at `index`, counted from 0.
    fn at(&mut self, index: usize, message: impl Into<String>) {
        let (path, message) = (self.path.to_owned(), message.into());
        self.findings.push(Finding { path, line: index + 1, message });
    }

    fn whole(&mut self, message: impl Into<String>) {
        let (path, message) = (self.path.to_owned(), message.into());
        self.findings.push(Finding { path, line: 0, message });
    }
}

/// Whether every line of the file is a test: test folders, benches and the crates that
/// only tests use.
fn is_test_path(path: &str) -> bool {
    let folders = path.split('/');
    let file = path.rsplit('/').next();
    folders.clone().any(|name| name == "tests" || name == "benches")
        || file == Some("tests.rs")
        || path.starts_with("e2e/")
        || path.starts_with("src/testkit/")
}

fn top_level(report: &mut Report<'_>) {
    let first = report.path.split('/').next().unwrap_or_default();
    if !first.starts_with('.') && !TOP_LEVEL.contains(&first) {
        report.whole(format!("`{first}` is not in the fixed top level; use a folder or a dotfile"));
    }
}

fn machine_names(report: &mut Report<'_>, text: &str) {
    for (index, line) in text.lines().enumerate() {
        for path in MACHINE_PATHS {
            if starts_absolute(line, path) {
                report.at(index, format!("`{path}` exists on one machine only"));
            }
        }
        for host in REGISTRY_HOSTS {
            if line.contains(host) {
                report.at(index, format!("registry host `{host}`: leave it to the machine"));
            }
        }
        if report.path.ends_with("package-lock.json") && line.contains("\"resolved\": \"http") {
            report.at(index, "lock files name no host: npm's omit-lockfile-registry-resolved");
        }
    }
}

/// Whether `line` has `path` at the start of an absolute path, not in the middle of a longer one.
fn starts_absolute(line: &str, path: &str) -> bool {
    line.match_indices(path)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-/}*".contains(c)))
}

fn imports(report: &mut Report<'_>, text: &str) {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return report.whole(format!("not TOML: {error}")),
    };
    let folder = report.path.strip_suffix("Cargo.toml").unwrap_or_default().trim_end_matches('/');
    let Some((_, allowed)) = IMPORTS.iter().find(|(name, _)| *name == folder) else {
        return report.whole("this crate has no row in tidy's IMPORTS: add it to the layers");
    };
    for section in ["dependencies", "build-dependencies"] {
        let names = manifest.get(section).and_then(toml::Value::as_table);
        for name in names.into_iter().flat_map(toml::Table::keys) {
            if let Some(ours) = name.strip_prefix("plasma-")
                && !allowed.contains(&ours)
            {
                let index = text.lines().position(|line| line.contains(name.as_str()));
                report.at(index.unwrap_or(0), format!("`{folder}` may not import `{name}`"));
            }
        }
    }
}

fn shape(report: &mut Report<'_>, source: &Source<'_>) {
    for (index, line) in source.lines.iter().enumerate() {
        let columns = line.chars().count();
        if columns > LINE_COLUMNS_MAX {
            report.at(index, format!("{columns} columns; at most {LINE_COLUMNS_MAX}"));
        }
        if !line.is_ascii() {
            report.at(index, "not ASCII");
        }
    }
    let lines = source.test.iter().filter(|&&test| !test).count();
    if lines > FILE_LINES_MAX {
        report.whole(format!("{lines} lines without tests; at most {FILE_LINES_MAX}: split it"));
    }
}

fn unfinished(report: &mut Report<'_>, source: &Source<'_>) {
    for (index, code) in source.code.iter().enumerate() {
        for name in UNFINISHED.into_iter().filter(|name| has_word(code, name)) {
            report.at(index, format!("`{name}` is unfinished work"));
        }
        if code.contains("#[ignore") {
            report.at(index, "an ignored test guards nothing: mend it or remove it");
        }
    }
}

fn panics(report: &mut Report<'_>, source: &Source<'_>) {
    for (index, code) in source.code.iter().enumerate() {
        if source.test[index] || !PANICKING.iter().any(|call| code.contains(call)) {
            continue;
        }
        let above = index.saturating_sub(INVARIANT_LINES_ABOVE);
        if !source.lines[above..=index].iter().any(|line| line.contains("// INVARIANT:")) {
            report.at(index, "`unwrap`/`expect` needs `// INVARIANT:` saying why it cannot fail");
        }
    }
}

fn sleeps(report: &mut Report<'_>, source: &Source<'_>) {
    for (index, code) in source.code.iter().enumerate() {
        let in_wait = || source.function_at(index).is_some_and(|name| name.contains("wait"));
        if source.test[index] && has_word(code, "sleep(") && !in_wait() {
            report.at(index, "a test waits on a condition (`fn wait_...`), never for a time");
        }
    }
}

fn purity(report: &mut Report<'_>, source: &Source<'_>) {
    if !report.path.starts_with("src/core/") && !report.path.starts_with("src/ledger/") {
        return;
    }
    for (index, code) in source.code.iter().enumerate().filter(|(index, _)| !source.test[*index]) {
        for name in IMPURE.into_iter().filter(|name| has_word(code, name)) {
            report.at(index, format!("`{name}`: this crate is a pure function of its input"));
        }
    }
}

/// Whether `word` occurs in `code` as a whole word (`f64` is not in `buf64`, nor `Instant` in
/// `Instantiate`).
fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let opens = !code[..at].ends_with(is_word);
        let closes = !word.ends_with(is_word) || !code[at + word.len()..].starts_with(is_word);
        opens && closes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of one file, joined; empty if it is clean.
    fn messages(path: &str, text: &str) -> String {
        check(path, text).iter().map(|f| f.to_string() + "\n").collect()
    }

    /// Asserts that `text` breaks the rule that says `part`, at `line`, and no other.
    fn breaks(path: &str, text: &str, line: usize, part: &str) {
        let found = check(path, text);
        assert!(
            found.len() == 1 && found[0].line == line && found[0].message.contains(part),
            "{path}: wanted {part:?} at {line}, found {found:?}"
        );
    }

    #[test]
    fn clean_code_passes() {
        let text = "//! A.\nfn f() -> Option<u8> {\n    // INVARIANT: ASCII.\n    x.unwrap()\n}\n";
        assert_eq!(messages("src/abci/a.rs", text), "");
    }

    #[test]
    fn top_level_is_fixed() {
        breaks("docs/a.md", "", 0, "top level");
        breaks("Makefile", "", 0, "top level");
        assert_eq!(messages(".ci/run", ""), "");
        assert_eq!(messages("README.md", ""), "");
    }

    #[test]
    fn machine_paths_and_registry_hosts() {
        for path in MACHINE_PATHS {
            breaks("scripts/x", &format!("ok\ncd {path}main\n"), 2, "one machine");
            assert_eq!(messages("scripts/x", &format!("cd $HERE/a{path}b ../{path}\n")), "");
        }
        for host in REGISTRY_HOSTS {
            breaks("contracts/.npmrc", &format!("registry = {host}\n"), 1, "registry host");
        }
        let lock = "{\n\"resolved\": \"https://mirror.example/a.tgz\"\n}";
        breaks("contracts/package-lock.json", lock, 2, "lock files");
    }

    #[test]
    fn imports_follow_the_layers() {
        let core = "[dependencies]\nserde = \"1\"\nplasma-store.workspace = true\n";
        breaks("src/core/Cargo.toml", core, 3, "`src/core` may not import `plasma-store`");
        let ledger = "[dependencies]\nplasma-core.workspace = true\n\
                      [dev-dependencies]\nplasma-testkit.workspace = true\n";
        assert_eq!(messages("src/ledger/Cargo.toml", ledger), "");
        let node = "[dependencies.plasma-testkit]\nworkspace = true\n";
        breaks("src/node/Cargo.toml", node, 1, "plasma-testkit");
        let build = "[build-dependencies]\nplasma-node.workspace = true\n";
        breaks("qa/Cargo.toml", build, 2, "plasma-node");
        breaks("src/new/Cargo.toml", "", 0, "no row");
        breaks("src/core/Cargo.toml", "[", 0, "not TOML");
    }

    #[test]
    fn lines_and_files_have_limits() {
        let line = "x".repeat(LINE_COLUMNS_MAX);
        assert_eq!(messages("src/api/a.rs", &line), "");
        breaks("src/api/a.rs", &format!("{line}x\n"), 1, "101 columns");
        breaks("src/api/a.rs", "// caf\u{e9}\n", 1, "ASCII");
        let file = "x();\n".repeat(FILE_LINES_MAX);
        let tests = format!("{file}#[cfg(test)]\nmod tests {{\n{file}}}\n");
        assert_eq!(messages("src/api/a.rs", &tests), "");
        breaks("src/api/a.rs", &format!("{file}x();\n"), 0, "601 lines");
        assert_eq!(messages("src/api/tests/it/a.rs", &format!("{file}x();\n")), "");
    }

    #[test]
    fn unfinished_work_is_found_in_code_only() {
        for name in UNFINISHED {
            breaks("src/api/a.rs", &format!("fn f() {{\n    {name}(\"x\")\n}}\n"), 2, "unfinished");
            assert_eq!(messages("src/api/a.rs", &format!("// {name}\nlet x = \"{name}\";\n")), "");
        }
        breaks("src/api/tests/it/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}\n", 2, "ignored");
    }

    #[test]
    fn panics_say_why_they_cannot_happen() {
        for call in PANICKING {
            let text = format!("fn f() {{\n    x{call}\"y\");\n}}\n");
            breaks("src/api/a.rs", &text, 2, "INVARIANT");
            assert_eq!(messages("src/api/tests/it/a.rs", &text), "");
            assert_eq!(messages("src/testkit/a.rs", &text), "");
            assert_eq!(
                messages("src/api/a.rs", &format!("#[cfg(test)]\nmod t {{\n{text}}}\n")),
                ""
            );
        }
        assert_eq!(messages("src/api/a.rs", "x.unwrap_or(1); x.unwrap_or_default();\n"), "");
    }

    #[test]
    fn tests_wait_on_conditions() {
        let test = "fn balance() {\n    std::thread::sleep(SECOND);\n}\n";
        breaks("e2e/tests/it/a.rs", test, 2, "condition");
        breaks("src/api/a.rs", &format!("#[cfg(test)]\nmod t {{\n{test}}}\n"), 4, "condition");
        assert_eq!(messages("src/api/a.rs", test), "", "a service may sleep");
        let helper = "fn wait_until() {\n    std::thread::sleep(STEP);\n}\n";
        assert_eq!(messages("e2e/lib.rs", helper), "");
    }

    #[test]
    fn pure_crates_see_no_world() {
        for name in IMPURE {
            breaks("src/core/a.rs", &format!("use {name};\n"), 1, "pure");
            breaks("src/ledger/a.rs", &format!("use {name};\n"), 1, "pure");
            assert_eq!(messages("src/store/a.rs", &format!("use {name};\n")), "");
            assert_eq!(messages("src/core/tests/it/a.rs", &format!("use {name};\n")), "");
        }
        assert_eq!(messages("src/core/a.rs", "let buf64 = Instantiate;\n"), "");
    }
}
