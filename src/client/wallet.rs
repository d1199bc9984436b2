//! Keys: Web3 keystore v3 files, and the devnet's known accounts.
//!
//! A file `NAME.json` holds one key: version 3, scrypt, AES-128-CTR, with the address as geth
//! writes it; mode 0600 from its first byte, in a directory that is made with mode 0700. It is
//! written beside its name, made durable and linked to the name, which is never overwritten: a
//! crash leaves a whole file or a `.NAME.RANDOM.new` that nobody reads.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use plasma_core::Address;
use plasma_core::signature::SigningKey;
use rand08::RngCore;
use serde_json::{Value, json};

/// Most bytes of a keystore file.
const FILE_BYTES_MAX: u64 = 65_536;
/// Most bytes of memory that a file may make scrypt use; geth's standard takes 256 MiB.
const SCRYPT_BYTES_MAX: u64 = 512 << 20;
/// Most rounds of PBKDF2 that a file may ask for.
const PBKDF2_ROUNDS_MAX: u64 = 10_000_000;

/// Why a key cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum WalletError {
    /// A name that is no plain file name.
    #[error("{0:?} is no name: use letters, digits, - and _")]
    Name(String),
    /// The name is taken.
    #[error("{0} exists already")]
    Exists(PathBuf),
    /// No such key.
    #[error("there is no key {0:?}")]
    NotFound(String),
    /// The file is damaged or the password is wrong.
    #[error("key {name:?}: {cause}")]
    Keystore {
        /// The key's name.
        name: String,
        /// The library's words.
        cause: String,
    },
    /// Off the devnet, an address whose key everybody knows.
    #[error("everybody knows the key of {address}; this is chain {chain_id}, not a devnet")]
    DevnetOnly {
        /// The address.
        address: Address,
        /// Ethereum's chain id.
        chain_id: u64,
    },
    /// The directory.
    #[error("keystore: {0}")]
    Io(#[from] io::Error),
}

/// A directory of keystore files, one a name.
#[derive(Debug, Clone)]
pub struct Keystore {
    dir: PathBuf,
}

impl Keystore {
    /// The keystore in `dir`; made when the first key is stored.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    fn path(&self, name: &str) -> Result<PathBuf, WalletError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(WalletError::Name(name.to_owned()));
        }
        Ok(self.dir.join(format!("{name}.json")))
    }

    /// Encrypts a key under a new name.
    pub fn store(
        &self,
        name: &str,
        key: &SigningKey,
        password: &str,
    ) -> Result<PathBuf, WalletError> {
        let path = self.path(name)?;
        if path.exists() {
            return Err(WalletError::Exists(path));
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let mut random = rand_for_keystore();
        let file = format!(".{name}.{:016x}.new", random.next_u64());
        let beside = self.dir.join(&file);
        // The library writes into the file that is there and leaves its mode alone.
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        eth_keystore::encrypt_key(&self.dir, &mut random, key.to_bytes(), password, Some(&file))
            .map_err(|error| keystore_error(name, &error))?;
        let mut json = read_file(&beside, name)?;
        json["address"] = json!(hex::encode(key.address()));
        fs::write(&beside, json.to_string())?;
        fs::File::open(&beside)?.sync_all()?;
        let linked = fs::hard_link(&beside, &path);
        fs::remove_file(&beside)?;
        linked.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => WalletError::Exists(path.clone()),
            _ => error.into(),
        })?;
        fs::File::open(&self.dir)?.sync_all()?;
        Ok(path)
    }

    /// Decrypts the key of a name, or of an address.
    pub fn unlock(&self, name: &str, password: &str) -> Result<SigningKey, WalletError> {
        let mut path = self.path(name)?;
        if !path.exists() {
            path = self.path_of(name)?;
        }
        let json = read_file(&path, name)?;
        check_file(&json, name)?;
        let secret = eth_keystore::decrypt_key(&path, password).map_err(|error| match error {
            eth_keystore::KeystoreError::MacMismatch => keystore_error(name, &"wrong password"),
            other => keystore_error(name, &other),
        })?;
        let bytes: [u8; 32] = secret.try_into().map_err(|_| WalletError::Keystore {
            name: name.to_owned(),
            cause: "holds no 32-byte key".into(),
        })?;
        let key = SigningKey::from_bytes(bytes).map_err(|error| keystore_error(name, &error))?;
        match address_in(&json) {
            Some(address) if address != key.address() => {
                Err(keystore_error(name, &format!("is not the key of its address {address}")))
            }
            _ => Ok(key),
        }
    }

    /// The file of the first key with the address that `text` is.
    fn path_of(&self, text: &str) -> Result<PathBuf, WalletError> {
        let missing = || WalletError::NotFound(text.to_owned());
        let wanted: Address = text.parse().map_err(|_| missing())?;
        for name in self.names()? {
            let path = self.path(&name)?;
            // A damaged file is none of this key's business.
            if read_file(&path, &name).ok().as_ref().and_then(address_in) == Some(wanted) {
                return Ok(path);
            }
        }
        Err(missing())
    }

    /// Names of the keys with their addresses, ascending; no address if a file from elsewhere
    /// has none.
    pub fn list(&self) -> Result<Vec<(String, Option<Address>)>, WalletError> {
        let mut list = Vec::new();
        for name in self.names()? {
            let json = read_file(&self.path(&name)?, &name)?;
            list.push((name, address_in(&json)));
        }
        Ok(list)
    }

    /// Names of the keys, ascending. Files whose names the keystore would not give are not keys.
    pub fn names(&self) -> Result<Vec<String>, WalletError> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let file = entry?.file_name();
            if let Some(name) = file.to_str().and_then(|file| file.strip_suffix(".json"))
                && self.path(name).is_ok()
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }
}

/// The address that a file claims.
fn address_in(json: &Value) -> Option<Address> {
    json["address"].as_str().and_then(|text| text.parse().ok())
}

fn rand_for_keystore() -> impl rand08::RngCore + rand08::CryptoRng {
    rand08::rngs::OsRng
}

fn read_file(path: &Path, name: &str) -> Result<Value, WalletError> {
    if fs::metadata(path)?.len() > FILE_BYTES_MAX {
        return Err(keystore_error(name, &format!("more than {FILE_BYTES_MAX} bytes")));
    }
    serde_json::from_slice(&fs::read(path)?).map_err(|error| keystore_error(name, &error))
}

/// Refuses what would make the keystore library panic or take all memory.
fn check_file(json: &Value, name: &str) -> Result<(), WalletError> {
    let crypto = &json["crypto"];
    let parameter = |field: &str| crypto["kdfparams"][field].as_u64().unwrap_or(0);
    let scrypt_bytes =
        parameter("n").saturating_mul(parameter("r").max(parameter("p"))).saturating_mul(128);
    let fault = if json["version"] != 3 {
        "not version 3"
    } else if crypto["cipher"] != "aes-128-ctr" {
        "its cipher is not aes-128-ctr"
    } else if crypto["cipherparams"]["iv"].as_str().map(str::len) != Some(32) {
        "its iv has not 16 bytes"
    } else if parameter("dklen") != 32 {
        "its dklen is not 32"
    } else if scrypt_bytes > SCRYPT_BYTES_MAX || parameter("c") > PBKDF2_ROUNDS_MAX {
        "it asks for too much memory or time"
    } else {
        return Ok(());
    };
    Err(keystore_error(name, &fault))
}

fn keystore_error(name: &str, error: &dyn std::fmt::Display) -> WalletError {
    WalletError::Keystore { name: name.to_owned(), cause: error.to_string() }
}

/// The one chain on which the devnet's accounts may be used: anvil's.
pub const DEVNET_CHAIN_ID: u64 = 31_337;

/// Anvil's ten accounts, 0 to 9, whose keys everybody knows. For [`DEVNET_CHAIN_ID`] only.
const DEVNET: [(&str, &str); 10] = [
    ("operator", "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
    ("alice", "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
    ("bob", "5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"),
    ("carol", "7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"),
    ("dave", "47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"),
    ("erin", "8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba"),
    ("frank", "92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e"),
    ("grace", "4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356"),
    ("mallory", "dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97"),
    ("relayer", "2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6"),
];

/// A devnet account's key.
pub fn devnet_key(name: &str) -> Option<SigningKey> {
    let (_, digits) = DEVNET.iter().find(|(known, _)| *known == name)?;
    let mut bytes = [0; 32];
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    SigningKey::from_bytes(bytes).ok()
}

/// Refuses an address whose key everybody knows, except on the devnet's chain. For the signer of
/// a message and for the receiver of a coin alike, whatever name they came by.
pub fn check_devnet(address: Address, chain_id: u64) -> Result<(), WalletError> {
    let known = || devnet_accounts().iter().any(|(_, account)| *account == address);
    if chain_id != DEVNET_CHAIN_ID && known() {
        return Err(WalletError::DevnetOnly { address, chain_id });
    }
    Ok(())
}

/// The devnet's accounts by name.
pub fn devnet_accounts() -> Vec<(&'static str, Address)> {
    DEVNET.iter().filter_map(|(name, _)| Some((*name, devnet_key(name)?.address()))).collect()
}
