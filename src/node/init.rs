//! `plasma init`: a node's home with its keys and configuration.

use std::path::Path;

use base64::Engine;
use serde_json::json;

use crate::cometbft;
use crate::config::{self, Config};
use crate::devnet::new_key;
use crate::home::{Home, read_key, write_file, write_secret};
use crate::output::{CommandError, CommandResult, Output};

/// Makes what is missing of a home; never overwrites a key or a configuration.
pub fn run(home: &Home, genesis: Option<&Path>, output: &Output) -> CommandResult<()> {
    // Before anything is made: a wrong path leaves nothing behind.
    let genesis = genesis.map(|path| {
        std::fs::read_to_string(path).map_err(|error| {
            CommandError::usage(format!("{}: {error}", path.display()), "check --genesis")
        })
    });
    let genesis = genesis.transpose()?;
    let failed = |error: std::io::Error| {
        CommandError::failure("init", format!("{}: {error}", home.0.display()), "check the path")
    };
    std::fs::create_dir_all(home.data()).map_err(failed)?;
    cometbft::init_home(&home.cometbft())?;
    let root_key = home.resolve("config/root_key");
    if !root_key.exists() {
        write_secret(&root_key, hex::encode(new_key()?.to_bytes()).as_bytes()).map_err(failed)?;
    }
    let path = config::path(&home.0);
    if !path.exists() {
        let mut config = Config::default();
        config.app.root_key_file = "config/root_key".into();
        write_file(&path, &config::render(&config)).map_err(failed)?;
    }
    let listen = config::load(&home.0)?.app.listen;
    cometbft::write_config(&home.cometbft(), &absolute(home, &listen), None)?;
    if let Some(text) = genesis {
        write_file(&home.cometbft().join("config/genesis.json"), &text).map_err(failed)?;
    }
    let consensus_key = base64::engine::general_purpose::STANDARD
        .encode(cometbft::consensus_key(&home.cometbft())?);
    let address = read_key(&root_key)?.address();
    let data = json!({"home": home.0, "consensus_key": consensus_key, "root_key": address});
    let text = format!(
        "home          {}\nconsensus_key {consensus_key}\nroot_key      {address}",
        home.0.display()
    );
    output.result(text, data);
    Ok(())
}

/// A listen address whose socket path starts at the home: CometBFT runs in another directory.
pub fn absolute(home: &Home, listen: &str) -> String {
    match listen.strip_prefix("unix://") {
        Some(path) => format!("unix://{}", home.resolve(path).display()),
        None => listen.to_owned(),
    }
}
