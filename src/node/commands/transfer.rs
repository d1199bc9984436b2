//! `plasma transfer`.

use std::time::{Duration, Instant};

use plasma_client::rpc::{Broadcast, NodeClient, RpcError, TxVerdict};
use plasma_client::transfer::{sign, tx_hash};
use plasma_core::code::Code;
use plasma_core::signature::SigningKey;
use plasma_core::state::Params;
use plasma_core::transfer::SignedTransfer;
use plasma_core::tx::Tx;
use plasma_core::{Address, BlockNumber, CoinId};
use serde_json::json;

use crate::cli::{Transfer, TransferCommand};
use crate::context::{Context, find_coin, rpc_error};
use crate::output::{CommandError, CommandResult, Exit, Output};

/// How long a transfer may take into a block.
const INCLUDE_MAX: Duration = Duration::from_secs(60);

/// Runs it.
pub async fn run(context: &Context, args: &Transfer, output: &Output) -> CommandResult<()> {
    if let Some(TransferCommand::Show { hash, coin }) = &args.command {
        return show(context, hash, *coin, output).await;
    }
    let (Some(from), Some(to)) = (&args.from, &args.to) else {
        return Err(CommandError::usage("--from and --to are needed", "plasma transfer --help"));
    };
    let key = context.key(from, args.password_file.as_deref()).await?;
    let to = context.address(to).await?;
    let node = context.node()?;
    let params = context.checked_params(&node).await?;
    let max_block = match args.max_block {
        Some(block) => block,
        None => {
            let tip = node.tip().await.map_err(rpc_error)?;
            tip.next_block().saturating_add(context.config.node.max_block_margin)
        }
    };
    let (tx, transfers) = build(&node, &params, &args.coins, &key, to, max_block).await?;
    let bytes = tx.encode();
    let hash = hex::encode_upper(tx_hash(&bytes));
    let domain = params.domain();
    let digests: Vec<_> = transfers.iter().map(|t| t.transfer.digest(&domain)).collect();
    if args.dry_run {
        let text = format!("0x{}", hex::encode(&bytes));
        let data = json!({"tx": text, "hash": hash, "transfers": digests,
                          "max_block": max_block});
        output.result(&text, data);
        return Ok(());
    }
    let verdict = node.broadcast(&bytes, Broadcast::Sync).await;
    accepted(&already_known(verdict, &hash)?)?;
    let mut data = json!({"hash": hash, "transfers": digests, "max_block": max_block});
    let mut text = format!("transaction {hash}");
    if !args.no_wait {
        let height = await_inclusion(&node, &bytes).await?;
        data["height"] = height.into();
        text += &format!("\nincluded at height {height}");
    }
    for digest in &digests {
        text += &format!("\ntransfer {digest}");
    }
    output.result(text, data);
    Ok(())
}

/// Signs the transfers of `coins`: one transaction, a bundle if there are several.
pub async fn build(
    node: &NodeClient,
    params: &Params,
    coins: &[CoinId],
    key: &SigningKey,
    to: Address,
    max_block: BlockNumber,
) -> CommandResult<(Tx, Vec<SignedTransfer>)> {
    let mut coins = coins.to_vec();
    coins.sort_unstable();
    coins.dedup();
    let mut signed = Vec::new();
    for coin in coins {
        let state = find_coin(node, params, coin).await?.state;
        signed.push(sign(&state, to, max_block, key, &params.domain()));
    }
    let tx = match &signed[..] {
        [one] => Tx::Transfer(one.wire()),
        many => Tx::Bundle(many.iter().map(SignedTransfer::wire).collect()),
    };
    Ok((tx, signed))
}

/// CometBFT knows the bytes already: as good as accepted, if they are not refused for ever.
fn already_known(verdict: Result<TxVerdict, RpcError>, hash: &str) -> CommandResult<TxVerdict> {
    match verdict {
        Err(RpcError::Comet { data, .. }) if data.contains("already exists in cache") => {
            Ok(TxVerdict { code: 0, log: String::new(), hash: hash.to_owned() })
        }
        other => other.map_err(rpc_error),
    }
}

/// A refusal as an error.
pub fn accepted(verdict: &TxVerdict) -> CommandResult<()> {
    match verdict.code {
        0 => return Ok(()),
        code if code == Code::AlreadyPending.number() => return Ok(()),
        _ => {}
    }
    let code = Code::from_number(verdict.code);
    let name = code.map_or("refused", Code::name);
    let message = format!("the chain refused the transaction: {}", verdict.log);
    Err(CommandError::new(Exit::Rejected, name, message, "plasma coin show COIN"))
}

/// Waits until a transaction is in a block; returns its height.
pub async fn await_inclusion(node: &NodeClient, tx: &[u8]) -> CommandResult<u64> {
    let hash = tx_hash(tx);
    let deadline = Instant::now() + INCLUDE_MAX;
    while Instant::now() < deadline {
        if let Some(result) = node.tx(&hash).await.map_err(rpc_error)? {
            return Ok(result.height);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let message = format!("transaction {} is not in a block yet", hex::encode_upper(hash));
    Err(CommandError::failure("not_included", message, "plasma transfer show HASH"))
}

async fn show(
    context: &Context,
    hash: &str,
    coin: Option<CoinId>,
    output: &Output,
) -> CommandResult<()> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(hash.trim_start_matches("0x"), &mut bytes)
        .map_err(|_| CommandError::usage("a hash has 64 hex digits", "plasma transfer --help"))?;
    let node = context.node()?;
    let domain = context.params(&node).await?.domain();
    let missing = || {
        let help = "for a transfer's own hash add --coin COIN";
        CommandError::no("not_found", format!("no transfer {hash}"), help)
    };
    if let Some(coin) = coin {
        let history = node.coin_history(coin).await.map_err(rpc_error)?.unwrap_or_default();
        let found = history.iter().find(|(_, t)| t.transfer.digest(&domain).0 == bytes);
        let (block, transfer) = found.ok_or_else(missing)?;
        let t = &transfer.transfer;
        let text = format!("coin {coin} to {} in plasma block {block}", t.new_owner);
        let data = json!({"coin": coin, "to": t.new_owner, "block": block,
                          "prev_block": t.prev_block, "max_block": t.max_block});
        output.result(text, data);
        return Ok(());
    }
    let result = node.tx(&bytes).await.map_err(rpc_error)?.ok_or_else(missing)?;
    let tx = Tx::decode(&result.tx).map_err(|_| missing())?;
    // The node's bytes: a bitmap that is too short says "skipped".
    let bit = |i: usize| result.data.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1);
    let executed = |i: usize| result.data.is_empty() || bit(i);
    let mut lines = vec![format!("height {}", result.height)];
    let mut data = Vec::new();
    for (i, t) in tx.transfers().iter().enumerate() {
        let word = if executed(i) { "executed" } else { "skipped" };
        lines.push(format!("coin {} to {} {word}", t.coin, t.new_owner));
        data.push(json!({"coin": t.coin, "to": t.new_owner, "executed": executed(i)}));
    }
    output.result(lines.join("\n"), json!({"height": result.height, "transfers": data}));
    Ok(())
}
