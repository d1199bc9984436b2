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
use plasma_core::{Address, B256, CoinId};
use plasma_rootchain::contract::Authorization;
use serde_json::{Value, json};

use crate::home::read_file;
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

/// Most bytes of a consent's file, which comes from somebody else.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// A consent that its owner has signed.
pub struct Consent {
    pub coin: CoinId,
    pub state_hash: B256,
    pub owner: Address,
    pub authorization: Authorization,
}

/// Reads a consent and checks that the owner whom it names has signed it.
pub fn read(path: &Path, domain: &Domain) -> CommandResult<Consent> {
    let bad = |what: &str| {
        let message = format!("{}: {what}", path.display());
        CommandError::usage(message, "plasma exit authorize COIN --from OWNER --not-after 90d")
    };
    let text = read_file(path, FILE_BYTES_MAX).map_err(|error| bad(&error.to_string()))?;
    let mut file: Value = serde_json::from_slice(&text).map_err(|_| bad("is no JSON"))?;
    if file.get("data").is_some() {
        // Written with --json.
        file = file["data"].take();
    }
    if file["format"] != FORMAT {
        return Err(bad("is no exit authorization of version 1"));
    }
    let number = |field: &str| file[field].as_u64().ok_or_else(|| bad(&format!("has no {field}")));
    let text = |field: &str| file[field].as_str().unwrap_or_default();
    let (coin, not_after) = (number("coin")?, number("not_after")?);
    let state_hash: B256 = text("state_hash").parse().map_err(|_| bad("has no state_hash"))?;
    let owner: Address = text("owner").parse().map_err(|_| bad("has no owner"))?;
    let mut signature = Signature::ZERO;
    let digits = text("signature").strip_prefix("0x").unwrap_or_default();
    hex::decode_to_slice(digits, &mut signature.0)
        .map_err(|_| bad("has no signature of 64 bytes"))?;
    let digest = authorization_digest(domain, coin, state_hash, not_after);
    if signature.recover(digest).ok() != Some(owner) {
        let message = format!(
            "{}: {owner} has not signed it for {} on chain {}",
            path.display(),
            domain.root_chain,
            domain.chain_id
        );
        let help = format!("its owner: plasma exit authorize {coin} --not-after 90d");
        return Err(CommandError::new(Exit::Rejected, "not_authorised", message, help));
    }
    let authorization = Authorization { not_after, signature };
    Ok(Consent { coin, state_hash, owner, authorization })
}
