//! Tidy on this repository, as an ordinary test.

use std::path::Path;

#[test]
fn the_repository_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let findings = xtask::tidy::repository(&root).unwrap();
    let report: String = findings.iter().map(|f| format!("{f}\n")).collect();
    assert!(findings.is_empty(), "{} findings:\n{report}", findings.len());
}
