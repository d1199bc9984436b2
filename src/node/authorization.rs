//! An owner's consent to the exit of one state, as a file.
//!
//! JSON: `{"format": "plasma-exit-authorization/1", "chain_id": 31337, "root_chain": "0x...",
//! "coin": 7, "state_hash": "0x...", "owner": "0x...", "not_after": 1800000000, "signature":
//! "0x..."}`. Whoever has it can only let the owner be paid.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

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
#[derive(Debug)]
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

/// A directory to which owners' consents are added while a tower runs: its `*.json`.
pub struct Inbox {
    dir: PathBuf,
    domain: Domain,
    /// When the files that were read had been written, and their length.
    read: BTreeMap<PathBuf, (Option<SystemTime>, u64)>,
}

impl Inbox {
    /// None of its files is read yet.
    pub fn new(dir: &Path, domain: Domain) -> Self {
        Self { dir: dir.to_owned(), domain, read: BTreeMap::new() }
    }

    /// The consents that are new or have changed since the last call. They come from many owners: a
    /// bad one must not keep the others unguarded.
    pub fn take(&mut self) -> io::Result<Vec<Consent>> {
        let mut found = Vec::new();
        let name = |error| io::Error::other(format!("{}: {error}", self.dir.display()));
        for entry in fs::read_dir(&self.dir).map_err(name)?.filter_map(Result::ok) {
            let path = entry.path();
            let Ok(meta) = fs::metadata(&path) else { continue };
            let version = (meta.modified().ok(), meta.len());
            if path.extension().is_none_or(|extension| extension != "json")
                || self.read.get(&path) == Some(&version)
            {
                continue;
            }
            match read(&path, &self.domain) {
                Ok(consent) => found.push(consent),
                Err(error) => tracing::warn!("passed over: {error}"),
            }
            self.read.insert(path, version);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inbox_gives_each_consent_once_and_passes_over_what_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let domain = Domain::new(31_337, Address::repeat_byte(1));
        let key = SigningKey::from_bytes([7; 32]).unwrap();
        let state = |coin| CoinState { coin, owner: key.address(), block: 3, hash: B256::ZERO };
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let consent = |coin| sign(&state(coin), 9, &key, &domain).to_string();
        let mut inbox = Inbox::new(dir.path(), domain);
        let taken = |inbox: &mut Inbox| -> Vec<CoinId> {
            let mut coins: Vec<_> = inbox.take().unwrap().iter().map(|found| found.coin).collect();
            coins.sort_unstable();
            coins
        };
        write("good.json", &consent(1));
        write("bad.json", "{}");
        write("not-a-consent.txt", &consent(2));
        fs::create_dir(dir.path().join("directory.json")).unwrap();
        // What a shell has opened and not written yet.
        write("late.json", "");
        assert_eq!(taken(&mut inbox), [1]);
        assert_eq!(taken(&mut inbox), [0; 0]);
        write("late.json", &consent(3));
        write("good.json", &format!("{} ", consent(4)));
        assert_eq!(taken(&mut inbox), [3, 4]);
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(inbox.take().unwrap_err().to_string().contains(dir.path().to_str().unwrap()));
    }
}
