//! `plasma exit`.

use plasma_client::challenge::Inclusion;
use plasma_client::rpc::NodeClient;
use plasma_core::signature::SigningKey;
use plasma_core::transfer::SignedTransfer;
use plasma_core::{BlockNumber, CoinId};
use plasma_rootchain::contract::ExitStart;
use plasma_rootchain::ethereum::At;
use serde_json::json;

use crate::cli::Exit;
use crate::context::{Context, deposit_of, is_revert, rpc_error};
use crate::ethereum::eth_error;
use crate::output::{CommandError, CommandResult, Output};
use crate::time::rfc3339;

/// Runs it.
pub async fn run(context: &Context, command: &Exit, output: &Output) -> CommandResult<()> {
    match command {
        Exit::Start { coin, from } => {
            let key = context.key(&from.from, from.password_file.as_deref()).await?;
            let id = start(context, *coin, &key, output).await?;
            output.result(format!("exit {id}"), json!({"coin": coin, "exit": id}));
            Ok(())
        }
        Exit::List { coin } => list(context, *coin, output).await,
        Exit::Finalize { coin, from } => {
            let key = context.key(&from.from, from.password_file.as_deref()).await?;
            let sender = context.sender(&key).await?;
            let done = context.contract()?.finalize(&sender, *coin).await;
            done.map_err(|error| {
                let early = is_revert(&error, "TooEarly") || is_revert(&error, "OnHold");
                let mut error = eth_error(error);
                if early {
                    error.help =
                        "plasma exit list COIN (on the devnet: plasma devnet warp 15d)".into();
                }
                error
            })?;
            output.result(format!("coin {coin} finalized"), json!({"coin": coin}));
            Ok(())
        }
        Exit::Withdraw { coin, from } => {
            let key = context.key(&from.from, from.password_file.as_deref()).await?;
            let bond = withdraw(context, *coin, &key).await?;
            let text = format!("coin {coin} paid out{}", if bond { ", and the bond" } else { "" });
            output.result(text, json!({"coin": coin, "bond": bond}));
            Ok(())
        }
    }
}

/// Opens the exit of a coin's last state that is on Ethereum; returns its id.
pub async fn start(
    context: &Context,
    coin: CoinId,
    key: &SigningKey,
    output: &Output,
) -> CommandResult<u64> {
    let contract = context.contract()?;
    let deposit = deposit_of(&contract, coin).await?;
    let last = contract.last_block(At::Latest).await.map_err(eth_error)?;
    let sender = context.sender(key).await?;
    let bond = contract.bond().await.map_err(eth_error)?;
    output.note(format!("the exit puts up a bond of {bond} wei, returned when it wins"));
    let node = context.node()?;
    let history = if last > deposit.deposit_block {
        node.coin_history(coin).await.map_err(rpc_error)?.unwrap_or_default()
    } else {
        Vec::new()
    };
    let on_ethereum: Vec<&(BlockNumber, SignedTransfer)> =
        history.iter().filter(|(block, _)| *block <= last).collect();
    if on_ethereum.len() < history.len() {
        let message = format!("the last transfer of coin {coin} is not on Ethereum yet");
        return Err(CommandError::failure("not_on_ethereum", message, "plasma block show"));
    }
    let transfer = match on_ethereum[..] {
        [] => None,
        [transfer] => Some((None, shown(&node, transfer).await?)),
        [.., parent, transfer] => {
            Some((Some(shown(&node, parent).await?), shown(&node, transfer).await?))
        }
    };
    let deposit_id = deposit.deposit_id;
    let exit = ExitStart { coin, deposit_id, transfer, authorization: None, hint: 0 };
    contract.start_exit(&sender, &exit).await.map_err(eth_error)
}

/// A transfer with its proof of inclusion.
async fn shown(
    node: &NodeClient,
    (block, transfer): &(BlockNumber, SignedTransfer),
) -> CommandResult<Inclusion> {
    let coin = transfer.transfer.coin;
    let found = node.coin_proof(coin, *block).await.map_err(rpc_error)?;
    let proof =
        found.filter(|found| found.transfer.as_ref() == Some(transfer)).ok_or_else(|| {
            let message = format!("the node does not prove coin {coin} in block {block}");
            CommandError::no("not_proven", message, "ask another node: [node] rpc")
        })?;
    Ok(Inclusion { block: *block, transfer: *transfer, proof: proof.proof })
}

/// Pays out a finalized coin and the caller's bonds; true if there were any.
pub async fn withdraw(context: &Context, coin: CoinId, key: &SigningKey) -> CommandResult<bool> {
    let contract = context.contract()?;
    let sender = context.sender(key).await?;
    contract.withdraw(&sender, coin).await.map_err(eth_error)?;
    contract.withdraw_credits(&sender).await.map_err(eth_error)
}

async fn list(context: &Context, coin: CoinId, output: &Output) -> CommandResult<()> {
    let contract = context.contract()?;
    let deposit = deposit_of(&contract, coin).await?;
    let state = contract.coin(coin, deposit.deposit_id, At::Latest).await.map_err(eth_error)?;
    let period = contract
        .read(plasma_rootchain::contract::RootChain::exitPeriodCall {}, At::Latest)
        .await
        .map_err(eth_error)?;
    let status = ["active", "exited", "withdrawn"].get(usize::from(state.status)).unwrap_or(&"?");
    let mut lines = vec![format!("coin {coin} {status}")];
    let mut exits = Vec::new();
    for open in &state.open {
        let (id, beneficiary) = (open.id, open.beneficiary);
        let ends = open.opened_at.saturating_add(period);
        lines.push(format!("exit {id} of {beneficiary} ends after {}", rfc3339(ends)));
        exits.push(json!({"exit": id, "beneficiary": beneficiary, "ends_after": ends,
                          "parent_block": open.parent_block, "block": open.block}));
    }
    if state.hold_until > 0 {
        lines.push(format!("on hold until {}", rfc3339(state.hold_until)));
    }
    let data = json!({"coin": coin, "status": status, "hold_until": state.hold_until,
                      "exits": exits});
    output.result(lines.join("\n"), data);
    Ok(())
}
