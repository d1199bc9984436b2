//! An owner's consent to the exit of one state, as a file.
//!
//! JSON: `{"format": "plasma-exit-authorization/1", "chain_id": 31337, "root_chain": "0x...",
//! "coin": 7, "state_hash": "0x...", "owner": "0x...", "not_after": 1800000000, "signature":
//! "0x..."}`. Whoever has it can only let the owner be paid.

use std::path::Path;

use plasma_core::coin::CoinState;
use plasma_core::domain::Domain;
use plasma_core::exit::authorization_digest;
use plasma_core::signature::{Signature, SigningKey};
use plasma_rootchain::contract::Authorization;
use serde_json::{Value, json};

use crate::output::{CommandError, CommandResult, Exit};

const FORMAT: &str = "plasma-exit-authorization/1";

/// Signs the consent to the exit of `state`.
pub fn sign(state: &CoinState, not_after: u64, key: &SigningKey, domain: &Domain) -> Value {
    let digest = authorization_digest(domain, state.coin, state.hash, not_after);
    json!({
        "format": FORMAT,
        "chain_id": domain.chain_id,
        "root_chain": domain.root_chain,
        "coin": state.coin,
        "state_hash": state.hash,
        "owner": state.owner,
        "not_after": not_after,
        "signature": format!("0x{}", hex::encode(key.sign(digest).0)),
    })
}

/// Reads a consent and checks that it is the owner's, to the exit of `state`, at `now` (Unix
/// seconds, Ethereum's). None if the file is about another coin.
pub fn read(
    path: &Path,
    state: &CoinState,
    now: u64,
    domain: &Domain,
) -> CommandResult<Option<Authorization>> {
    let bad = |what: &str| {
        let message = format!("{}: {what}", path.display());
        CommandError::usage(message, "plasma exit authorize COIN --from OWNER --not-after 90d")
    };
    let text = std::fs::read(path).map_err(|error| bad(&error.to_string()))?;
    let mut file: Value = serde_json::from_slice(&text).map_err(|_| bad("is no JSON"))?;
    if file.get("data").is_some() {
        // Written with --json.
        file = file["data"].take();
    }
    if file["format"] != FORMAT {
        return Err(bad("is no exit authorization of version 1"));
    }
    if file["coin"] != state.coin {
        return Ok(None);
    }
    let not_after = file["not_after"].as_u64().ok_or_else(|| bad("has no not_after"))?;
    let mut signature = Signature::ZERO;
    let digits = file["signature"].as_str().and_then(|text| text.strip_prefix("0x"));
    let decoded = digits.map(|digits| hex::decode_to_slice(digits, &mut signature.0));
    if !matches!(decoded, Some(Ok(()))) {
        return Err(bad("has no signature of 64 bytes"));
    }
    let digest = authorization_digest(domain, state.coin, state.hash, not_after);
    if signature.recover(digest).ok() != Some(state.owner) {
        let message = format!(
            "{}: not the consent of {} to the exit of coin {} as it is now",
            path.display(),
            state.owner,
            state.coin
        );
        let help = format!("its owner: plasma exit authorize {} --not-after 90d", state.coin);
        return Err(CommandError::new(Exit::Rejected, "not_authorised", message, help));
    }
    if now > not_after {
        return Err(bad("its time is over"));
    }
    Ok(Some(Authorization { not_after, signature }))
}
