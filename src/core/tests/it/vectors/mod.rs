//! The vectors in `vectors/`: regenerated and compared with the committed files, which the
//! Solidity tests read. `UPDATE_VECTORS=1 cargo test -p plasma-core vectors` rewrites them.

mod digests;
mod messages;
mod tree;

use std::path::Path;

use plasma_core::keccak::keccak256;
use plasma_core::{Address, B256};
use serde_json::Value;

pub use digests::signature_rows;

/// 0x-prefixed hex.
fn hex(bytes: impl AsRef<[u8]>) -> String {
    let digits: String = bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

fn hash(value: B256) -> String {
    hex(value)
}

/// Lower-case, without a checksum.
fn address(value: Address) -> String {
    hex(value)
}

fn decimal(value: impl ToString) -> String {
    value.to_string()
}

fn check(name: &str, made: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(name);
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        let text = serde_json::to_string_pretty(made).unwrap() + "\n";
        std::fs::write(&path, text).unwrap();
    }
    let text = std::fs::read_to_string(&path).expect("run with UPDATE_VECTORS=1 to create it");
    let committed: Value = serde_json::from_str(&text).unwrap();
    assert!(committed == *made, "{name} is not what the code produces: review, then update");
}

#[test]
fn committed_vectors_are_what_the_code_produces() {
    check("domain.json", &digests::domain());
    check("deposits.json", &digests::deposits());
    check("transfers.json", &digests::transfers());
    check("signatures.json", &digests::signatures());
    check("digests.json", &digests::digests());
    check("tree.json", &tree::tree());
    check("proofs.json", &tree::proofs());
    check("chain.json", &tree::chain());
    check("events.json", &messages::events());
    check("certificates.json", &messages::certificates());
    check("messages.json", &messages::messages());
}
