//! `plasma demo`: scenarios on the devnet, told step by step.

use std::time::{Duration, Instant};

use plasma_client::rpc::Broadcast;
use plasma_client::wallet::devnet_key;
use plasma_core::coin::asset;
use plasma_core::signature::SigningKey;
use plasma_core::{Address, U256};
use plasma_rootchain::ethereum::At;

use crate::cli::DemoName;
use crate::commands::deposit::wait_for;
use crate::commands::devnet::warp;
use crate::commands::transfer::{accepted, await_inclusion, build};
use crate::commands::{coin, exit};
use crate::context::{Context, rpc_error};
use crate::ethereum::eth_error;
use crate::output::{CommandError, CommandResult, Output};

/// How long a root may take to Ethereum.
const ROOT_MAX: Duration = Duration::from_secs(120);

/// Plays a demo; an error unless the honest owner is paid.
pub async fn run(context: &Context, name: DemoName, output: &Output) -> CommandResult<()> {
    match name {
        DemoName::Happy => happy(context, output).await,
    }
}

fn account(name: &str) -> CommandResult<SigningKey> {
    devnet_key(name).ok_or_else(|| CommandError::failure("demo", format!("no {name}"), ""))
}

async fn happy(context: &Context, output: &Output) -> CommandResult<()> {
    let (alice, bob) = (account("alice")?, account("bob")?);
    let contract = context.contract()?;
    let node = context.node()?;
    let params = context.checked_params(&node).await?;
    let value = U256::from(10).pow(U256::from(18));

    let sender = context.sender(&alice).await?;
    let eth = (Address::ZERO, U256::ZERO);
    let (coin_id, _) =
        contract.make_deposit(&sender, asset::ETH, eth, value, 1).await.map_err(eth_error)?;
    output.note(format!("1  alice deposited 1 ether on Ethereum: coin {coin_id}"));
    wait_for(context, coin_id).await?;
    output.note("2  final on Ethereum and agreed by the validators: the coin exists");

    let max_block = node.tip().await.map_err(rpc_error)?.next_block() + 20;
    let (tx, _) = build(&node, &params, &[coin_id], &alice, bob.address(), max_block).await?;
    let started = Instant::now();
    accepted(&node.broadcast(&tx.encode(), Broadcast::Sync).await.map_err(rpc_error)?)?;
    let height = await_inclusion(&node, &tx.encode()).await?;
    output.note(format!(
        "3  alice sent it to bob: in block {height} after {:.1?}",
        started.elapsed()
    ));

    let block = await_root(context, coin_id).await?;
    output.note(format!("4  plasma block {block}, certified by the validators, is on Ethereum"));
    let verified = coin::verify_coin(context, coin_id).await?;
    let checked = verified.checked();
    output.note(format!("5  bob checked every block up to {checked} against Ethereum: it is his"));

    let before = contract.ethereum.balance(bob.address()).await.map_err(eth_error)?;
    let id = exit::start(context, coin_id, &bob, output).await?;
    output.note(format!("6  bob opened exit {id} with two Merkle proofs and a bond"));
    warp(context, 15 * 86_400).await?;
    output.note("7  15 days passed; nobody challenged");
    let sender = context.sender(&bob).await?;
    contract.finalize(&sender, coin_id).await.map_err(eth_error)?;
    exit::withdraw(context, coin_id, &bob).await?;
    let after = contract.ethereum.balance(bob.address()).await.map_err(eth_error)?;
    // Gas costs far less than a hundredth of an ether here.
    let paid = after + value / U256::from(100) > before + value;
    if !paid {
        let message = format!("bob had {before} wei, has {after}: not paid");
        return Err(CommandError::failure("not_paid", message, "see the devnet's logs"));
    }
    output.result(
        format!("8  bob withdrew the ether and his bond: paid (coin {coin_id})"),
        serde_json::json!({"coin": coin_id, "exit": id, "block": block}),
    );
    Ok(())
}

/// Waits until the coin's last transfer is in a root at Ethereum's finalized block.
async fn await_root(context: &Context, coin_id: u64) -> CommandResult<u64> {
    let (node, contract) = (context.node()?, context.contract()?);
    let history = node.coin_history(coin_id).await.map_err(rpc_error)?.unwrap_or_default();
    let block = history.last().map_or(0, |(block, _)| *block);
    let deadline = Instant::now() + ROOT_MAX;
    while contract.last_block(At::Finalized).await.unwrap_or(0) < block {
        if Instant::now() > deadline {
            let message = format!("plasma block {block} did not reach Ethereum in {ROOT_MAX:?}");
            return Err(CommandError::failure("timeout", message, "plasma block show"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(block)
}
