//! `plasma wallet`.

use plasma_client::wallet::devnet_accounts;
use plasma_core::Address;
use serde_json::json;

use crate::cli::Wallet;
use crate::context::{Context, read_password, wallet_error};
use crate::devnet::new_key;
use crate::home::read_key;
use crate::output::{CommandError, CommandResult, Output};

/// Runs it.
pub fn run(context: &Context, command: &Wallet, output: &Output) -> CommandResult<()> {
    match command {
        Wallet::New { name, password_file } => {
            refuse_devnet_name(name)?;
            let key = new_key()?;
            let password = read_password(password_file)?;
            context.keystore().store(name, &key, &password).map_err(wallet_error)?;
            let address = key.address();
            output.result(address, json!({"name": name, "address": address}));
        }
        Wallet::Import { name, key_file, password_file } => {
            refuse_devnet_name(name)?;
            let key = read_key(key_file)?;
            let password = read_password(password_file)?;
            context.keystore().store(name, &key, &password).map_err(wallet_error)?;
            let address = key.address();
            output.result(address, json!({"name": name, "address": address}));
        }
        Wallet::List => {
            let keys = context.keystore().list().map_err(wallet_error)?;
            let shown = |address: &Option<Address>| {
                address.map_or_else(|| "address unknown".into(), |address| address.to_string())
            };
            let mut lines: Vec<String> = keys
                .iter()
                .map(|(name, address)| format!("{name:<10} {}", shown(address)))
                .collect();
            let devnet = devnet_accounts();
            lines.extend(devnet.iter().map(|(name, address)| {
                format!("{name:<10} {address}  (devnet only: everybody knows this key)")
            }));
            let devnet: serde_json::Map<String, serde_json::Value> =
                devnet.into_iter().map(|(name, address)| (name.into(), json!(address))).collect();
            output.result(lines.join("\n"), json!({"keys": keys, "devnet": devnet}));
        }
    }
    Ok(())
}

/// A key of one's own under a devnet account's name would hide that account from every command.
fn refuse_devnet_name(name: &str) -> CommandResult<()> {
    if devnet_accounts().iter().all(|(known, _)| *known != name) {
        return Ok(());
    }
    let message = format!("{name:?} is the name of a devnet account");
    Err(CommandError::usage(message, "choose another name"))
}
