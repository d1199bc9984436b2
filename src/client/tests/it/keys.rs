//! Keys at rest, and the devnet's.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use plasma_client::transfer::tx_hash;
use plasma_client::wallet::{Keystore, WalletError, devnet_accounts, devnet_key};
use serde_json::{Value, json};

use crate::chain::{address, domain, key, pay, start};

#[test]
fn keys_round_trip_under_their_password_only() {
    let dir = tempfile::tempdir().unwrap();
    let keystore = Keystore::new(&dir.path().join("keys"));
    assert_eq!(keystore.list().unwrap(), []);
    let path = keystore.store("savings", &key("alice"), "secret").unwrap();
    keystore.store("Bob-2", &key("bob"), "").unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(path.clone()), mode(dir.path().join("keys"))), (0o600, 0o700));
    assert_eq!(fs::read_dir(dir.path().join("keys")).unwrap().count(), 2);

    assert_eq!(keystore.unlock("savings", "secret").unwrap().address(), address("alice"));
    assert_eq!(keystore.unlock("Bob-2", "").unwrap().address(), address("bob"));
    for wrong in ["", "Secret", "secret "] {
        let found = keystore.unlock("savings", wrong);
        assert!(matches!(found, Err(WalletError::Keystore { .. })), "{wrong:?}: {found:?}");
    }
    assert_eq!(
        keystore.list().unwrap(),
        [("Bob-2".into(), Some(address("bob"))), ("savings".into(), Some(address("alice")))]
    );
    let text = fs::read_to_string(path).unwrap();
    assert!(!text.contains(&hex::encode(key("alice").to_bytes())), "the key is in the clear");
}

#[test]
fn a_name_is_never_given_twice_and_never_a_path() {
    let dir = tempfile::tempdir().unwrap();
    let keystore = Keystore::new(dir.path());
    keystore.store("one", &key("alice"), "a").unwrap();
    let found = keystore.store("one", &key("bob"), "b");
    assert!(matches!(found, Err(WalletError::Exists(_))), "{found:?}");
    assert_eq!(keystore.unlock("one", "a").unwrap().address(), address("alice"));
    assert!(matches!(keystore.unlock("two", "a"), Err(WalletError::NotFound(_))));
    for name in ["", "../one", "a/b", ".one", "one.json", "a\0b"] {
        assert!(matches!(keystore.store(name, &key("bob"), ""), Err(WalletError::Name(_))));
        assert!(matches!(keystore.unlock(name, ""), Err(WalletError::Name(_))));
    }
}

#[test]
fn damaged_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let keystore = Keystore::new(dir.path());
    let path = keystore.store("one", &key("alice"), "a").unwrap();
    let good: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (pointer, bad) in [
        ("/version", json!(4)),
        ("/crypto/cipher", json!("none")),
        ("/crypto/cipherparams/iv", json!("00")),
        ("/crypto/kdfparams/dklen", json!(16)),
        ("/crypto/kdfparams/n", json!(1u32 << 31)),
        ("/crypto/kdfparams/r", json!(u32::MAX)),
        ("/crypto/mac", json!("00")),
        ("/crypto/ciphertext", json!("")),
    ] {
        let mut damaged = good.clone();
        *damaged.pointer_mut(pointer).unwrap() = bad;
        fs::write(&path, damaged.to_string()).unwrap();
        let found = keystore.unlock("one", "a");
        assert!(matches!(found, Err(WalletError::Keystore { .. })), "{pointer}: {found:?}");
    }
    for bytes in [&b""[..], b"[]", &[b' '; 70_000]] {
        fs::write(&path, bytes).unwrap();
        let found = keystore.unlock("one", "a");
        assert!(matches!(found, Err(WalletError::Keystore { .. })), "{found:?}");
    }
}

#[test]
fn devnet_accounts_are_anvils() {
    let accounts = devnet_accounts();
    let names: Vec<&str> = accounts.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "operator", "alice", "bob", "carol", "dave", "erin", "frank", "grace", "mallory",
            "relayer"
        ]
    );
    // The addresses that anvil prints for its accounts 0, 1 and 9.
    for (index, expected) in [
        (0, "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
        (1, "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"),
        (9, "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720"),
    ] {
        let (name, address) = accounts[index];
        assert_eq!(address.to_string(), expected, "{name}");
        assert_eq!(devnet_key(name).unwrap().address(), address);
    }
    assert!(devnet_key("nobody").is_none());
}

#[test]
fn a_signed_transfer_is_the_states_child() {
    let transfer = pay(&start(), "alice", "bob", 9);
    let child = transfer.child_of(&start(), 9, &domain()).unwrap();
    assert_eq!((child.owner, child.block), (address("bob"), 9));
    assert!(transfer.child_of(&start(), 10, &domain()).is_err());
}

#[test]
fn the_transaction_hash_is_sha256() {
    // FIPS 180-2, appendix B.1.
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(hex::encode(tx_hash(b"abc")), expected);
}
