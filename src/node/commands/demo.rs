//! `plasma demo`: scenarios on the devnet, told step by step.
//!
//! An honest owner plays by the code of `plasma exit`; a thief calls the contract himself. Where
//! the operator is hostile, the demo starts a network of its own below the home and forges plasma
//! blocks with the root keys of its validators: afterwards that network's roots fit nothing.

mod attacks;
mod operator;
mod stage;

use std::path::Path;

use plasma_client::wallet::devnet_key;
use plasma_core::signature::SigningKey;

use self::stage::Stage;
use crate::cli::DemoName;
use crate::commands::coin;
use crate::config::DEFAULT_STORE;
use crate::context::Context;
use crate::devnet::{Devnet, Options, describe, description_path};
use crate::ethereum::block_on;
use crate::home::Home;
use crate::output::{CommandError, CommandResult, Output};
use crate::process::runs;

/// Plays a demo; an error unless the honest owner is paid.
pub fn run(context: &Context, name: DemoName, output: &Output) -> CommandResult<()> {
    match name {
        DemoName::Happy => block_on(happy(context, output))?,
        DemoName::SpentCoin => block_on(attacks::spent_coin(context, output))?,
        DemoName::DoubleSpend | DemoName::InvalidHistory | DemoName::WithheldBlock => {
            let dir = context.home.0.join("demo");
            clear(&dir)?;
            output.note("0  a network of its own starts: its four validators are the thieves");
            let options = Options {
                store: DEFAULT_STORE.into(),
                validators: 4,
                free_ports: true,
                max_heights: Some(1),
                record_calls: false,
            };
            let devnet = Devnet::start(&dir, &options, &mut Output::new(false, true))?;
            let context = Context::load(Home(devnet.dir.clone()))?;
            match name {
                DemoName::DoubleSpend => block_on(attacks::double_spend(&context, output))?,
                DemoName::InvalidHistory => block_on(attacks::invalid_history(&context, output))?,
                _ => block_on(attacks::withheld_block(&context, output))?,
            }?;
            drop(devnet);
            clear(&dir)
        }
    }
}

/// Deletes what an earlier demo left behind: only a directory that holds a devnet's description.
fn clear(dir: &Path) -> CommandResult<()> {
    if !description_path(dir).exists() {
        return Ok(());
    }
    let supervisor = describe(dir)?.supervisor;
    if supervisor != 0 && runs(supervisor) {
        let message = format!("a demo plays already, process {supervisor}");
        return Err(CommandError::failure("demo", message, "wait for its end"));
    }
    let removed = std::fs::remove_dir_all(dir);
    removed
        .map_err(|error| CommandError::failure("demo", error, format!("rm -r {}", dir.display())))
}

fn account(name: &str) -> CommandResult<SigningKey> {
    devnet_key(name).ok_or_else(|| CommandError::failure("demo", format!("no {name}"), ""))
}

async fn happy(context: &Context, output: &Output) -> CommandResult<()> {
    let stage = Stage::new(context).await?;
    let coin_id = stage.deposit("alice").await?;
    output.note(format!("1  alice deposited 1 ether on Ethereum: coin {coin_id}"));
    output.note("2  final on Ethereum and agreed by the validators: the coin exists");
    let took = stage.send(coin_id, "alice", "bob").await?;
    output.note(format!("3  alice sent it to bob: in a block after {took:.1?}"));
    let block = stage.await_root(coin_id).await?;
    output.note(format!("4  plasma block {block}, certified by the validators, is on Ethereum"));
    let checked = coin::verify_coin(context, coin_id).await?.checked();
    output.note(format!("5  bob checked every block up to {checked} against Ethereum: it is his"));

    let before = stage.balance("bob").await?;
    let id = stage.start(coin_id, "bob").await?;
    output.note(format!("6  bob opened exit {id} with two Merkle proofs and a bond of 0.1 ether"));
    stage.days(15).await?;
    output.note("7  15 days passed; nobody challenged");
    stage.take(coin_id, "bob", before).await?;
    output.result(
        format!("8  bob withdrew the ether and his bond: paid (coin {coin_id})"),
        serde_json::json!({"coin": coin_id, "exit": id, "block": block}),
    );
    Ok(())
}
