//! `plasma relayer`.

use std::time::Duration;

use plasma_rootchain::relayer::{Policy, Relayer};

use crate::context::Context;
use crate::home::read_key;
use crate::output::{CommandError, CommandResult, Output};
use crate::signals::Signals;

/// Runs until a signal.
pub async fn run(context: &Context, output: &Output) -> CommandResult<()> {
    let signals =
        Signals::install().map_err(|error| CommandError::failure("signals", error, ""))?;
    let config = &context.config.relayer;
    if config.key_file.is_empty() {
        let message = "[relayer] key_file is empty: somebody must pay";
        return Err(CommandError::usage(message, "set it in config/plasma.toml"));
    }
    let key = read_key(&context.home.resolve(&config.key_file))?;
    let data = context.home.data();
    std::fs::create_dir_all(&data).map_err(|error| CommandError::failure("data", error, ""))?;
    let policy = Policy {
        resubmit_after: Duration::from_secs(config.resubmit_after_s),
        max_fee_wei: config.max_fee_wei.into(),
    };
    let (node, contract) = (context.node()?, context.contract()?);
    // Ethereum may be away when the relayer starts.
    let sender = loop {
        match context.sender(&key).await {
            Ok(sender) => break sender,
            Err(error) => output.note(format!("waiting for Ethereum: {error}")),
        }
        if signals.received() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    output.note(format!("relaying as {}", sender.address()));
    let journal = data.join("relayer.journal");
    let relayer = Relayer::new(node, contract, sender, &journal, policy);
    let stopped = async {
        while !signals.received() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = relayer.run() => {}
        () = stopped => {}
    }
    Ok(())
}
