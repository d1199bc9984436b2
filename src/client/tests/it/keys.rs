//! Keys at rest, and the devnet's.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use plasma_client::transfer::tx_hash;
use plasma_client::wallet::{
    DEVNET_CHAIN_ID, Keystore, WalletError, check_devnet, devnet_accounts, devnet_key,
};
use plasma_core::Address;
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
fn a_directory_that_is_there_keeps_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = Keystore::new(dir.path()).store("one", &key("alice"), "a").unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(dir.path()), mode(&path)), (0o755, 0o600));
}

#[test]
fn one_of_several_at_once_gets_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let keystore = Keystore::new(dir.path());
    let names = ["alice", "bob", "carol", "dave"];
    let start = std::sync::Barrier::new(names.len());
    // All see that the name is free long before the first of them has encrypted its key.
    let stored: Vec<_> = std::thread::scope(|scope| {
        let threads = names.map(|name| {
            scope.spawn(|| {
                start.wait();
                keystore.store("one", &key(name), name)
            })
        });
        threads.map(|thread| thread.join().unwrap()).into_iter().collect()
    });
    let winners: Vec<_> = names.iter().zip(&stored).filter(|(_, found)| found.is_ok()).collect();
    assert_eq!(winners.len(), 1, "{stored:?}");
    let won = winners[0].0;
    assert_eq!(keystore.unlock("one", won).unwrap().address(), address(won));
    let lost = |found: &&Result<_, _>| matches!(found, Err(WalletError::Exists(_)));
    assert_eq!(stored.iter().filter(lost).count(), names.len() - 1, "{stored:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_key_is_found_by_its_address() {
    let dir = tempfile::tempdir().unwrap();
    let keystore = Keystore::new(dir.path());
    keystore.store("one", &key("alice"), "a").unwrap();
    let path = keystore.store("two", &key("bob"), "b").unwrap();
    fs::write(dir.path().join("damaged.json"), "{").unwrap();
    for text in [address("bob").to_string(), format!("{:x}", address("bob"))] {
        assert_eq!(keystore.unlock(&text, "b").unwrap().address(), address("bob"), "{text}");
        assert!(matches!(keystore.unlock(&text, "a"), Err(WalletError::Keystore { .. })));
    }
    let unknown = keystore.unlock(&address("carol").to_string(), "b");
    assert!(matches!(unknown, Err(WalletError::NotFound(_))), "{unknown:?}");
    // A file that claims another's address gives no key.
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    file["address"] = json!(hex::encode(address("carol")));
    fs::write(&path, file.to_string()).unwrap();
    for text in ["two".to_owned(), address("carol").to_string()] {
        let found = keystore.unlock(&text, "b");
        assert!(matches!(found, Err(WalletError::Keystore { .. })), "{text}: {found:?}");
    }
}

#[test]
fn known_keys_are_for_the_devnet_only() {
    let own = Address::repeat_byte(7);
    for (_, account) in devnet_accounts() {
        assert!(check_devnet(account, DEVNET_CHAIN_ID).is_ok());
        for chain_id in [0, 1, DEVNET_CHAIN_ID + 1] {
            let found = check_devnet(account, chain_id);
            assert!(
                matches!(found, Err(WalletError::DevnetOnly { address, chain_id: on })
                    if address == account && on == chain_id),
                "{found:?}"
            );
            assert!(check_devnet(own, chain_id).is_ok());
        }
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
