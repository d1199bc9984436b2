//! `plasma coin`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use plasma_client::history::History;
use plasma_client::queries::CoinAnswer;
use plasma_core::{BlockNumber, CoinId};
use plasma_rootchain::contract::RootChainContract;
use plasma_rootchain::ethereum::At;
use serde_json::json;

use crate::cli::Coin;
use crate::commands::verify::{
    Checked, Leaving, Source, View, check, coin_files, files_error, open_file, write_portable,
};
use crate::context::{Context, deposit_of, find_coin, rpc_error, unknown_coin};
use crate::ethereum::eth_error;
use crate::output::{CommandError, CommandResult, Output};

/// Runs it.
pub async fn run(context: &Context, command: &Coin, output: &Output) -> CommandResult<()> {
    match command {
        Coin::Show { coin } => show(context, *coin, output).await,
        Coin::List { owner: Some(owner) } => list(context, owner, output).await,
        Coin::List { owner: None } => list_kept(context, output).await,
        Coin::History { coin, verify: true, file, no_node } => {
            receive(context, Some(*coin), file.as_deref(), *no_node, output).await
        }
        Coin::History { coin, verify: false, .. } => history(context, *coin, output).await,
        Coin::Export { coin, file } => export(context, *coin, file.as_deref(), output).await,
        Coin::Import { file, no_node } => {
            receive(context, None, Some(file), *no_node, output).await
        }
    }
}

async fn show(context: &Context, coin: CoinId, output: &Output) -> CommandResult<()> {
    let node = context.node()?;
    let params = context.params(&node).await?;
    let last = node.tip().await.map_err(rpc_error)?.last_coin;
    if coin > last {
        let deposit = deposit_of(&context.contract()?, coin).await?;
        let text = format!(
            "coin {coin}\nowner  {}\nvalue  {}\nstatus pending: waits for Ethereum's finality \
             (two epochs, 13 to 20 minutes on a public network, seconds on the devnet)",
            deposit.owner, deposit.value
        );
        let data = json!({"coin": coin, "owner": deposit.owner,
                          "value": deposit.value.to_string(), "status": "pending"});
        output.result(text, data);
        return Ok(());
    }
    let known = find_coin(&node, &params, coin).await?;
    let status = match &known.answer {
        CoinAnswer::Record(record) if record.gone => "gone",
        CoinAnswer::Record(record) if record.frozen => "frozen",
        CoinAnswer::Record(_) => "active",
        CoinAnswer::Unmoved(_) => "active, never moved",
    };
    let contract = context.contract()?;
    let deposit = deposit_of(&contract, coin).await?;
    let stage = stage(&contract, known.state.block).await?;
    let text = format!(
        "coin {coin}\nowner  {}\nvalue  {}\nstatus {status}\nblock  {}, {stage}\nhash   {}",
        known.state.owner, deposit.value, known.state.block, known.state.hash
    );
    let data = json!({
        "coin": coin, "owner": known.state.owner, "value": deposit.value.to_string(),
        "asset_kind": deposit.asset_kind, "token": deposit.token, "status": status,
        "block": known.state.block, "stage": stage, "hash": known.state.hash,
        "deposit": deposit.deposit_id,
    });
    output.result(text, data);
    Ok(())
}

/// How far a coin's last block has come on its way; before "final" nothing is received.
async fn stage(contract: &RootChainContract, block: BlockNumber) -> CommandResult<&'static str> {
    let stored = |at| async move { contract.last_block(at).await.map_err(eth_error) };
    Ok(if block <= stored(At::Finalized).await? {
        "final on Ethereum"
    } else if block <= stored(At::Latest).await? {
        "on Ethereum"
    } else {
        "not on Ethereum yet"
    })
}

async fn list(context: &Context, owner: &str, output: &Output) -> CommandResult<()> {
    let address = context.address(owner).await?;
    let runs = context.node()?.account_coins(address).await.map_err(rpc_error)?;
    let lines: Vec<String> = runs
        .iter()
        .map(|(first, length)| match length {
            1 => first.to_string(),
            _ => format!("{first}..{}", first + length - 1),
        })
        .collect();
    let data = json!({"owner": address, "runs": runs});
    output.result(lines.join("\n"), data);
    Ok(())
}

async fn list_kept(context: &Context, output: &Output) -> CommandResult<()> {
    let view = View::read(context).await?;
    let files = coin_files(context, &view)?;
    let (mut lines, mut data) = (Vec::new(), Vec::new());
    for coin in files.coins().map_err(files_error)? {
        let Some((history, bytes)) = files.load(coin).map_err(files_error)? else { continue };
        let (owner, checked) = (history.state().owner, history.checked());
        lines.push(format!("{coin}  of {owner}, verified up to block {checked}, {bytes} bytes"));
        data.push(json!({"coin": coin, "owner": owner, "checked": checked, "bytes": bytes}));
    }
    output.result(lines.join("\n"), json!({"coins": data}));
    Ok(())
}

async fn history(context: &Context, coin: CoinId, output: &Output) -> CommandResult<()> {
    let node = context.node()?;
    let found = node.coin_history(coin).await.map_err(rpc_error)?;
    let transfers = found.ok_or_else(|| unknown_coin(coin))?;
    let domain = context.params(&node).await?.domain();
    let mut lines = Vec::new();
    let mut data = Vec::new();
    for (block, transfer) in transfers {
        let hash = transfer.transfer.digest(&domain);
        let to = transfer.transfer.new_owner;
        lines.push(format!("block {block:>8}  to {to}  transfer {hash}"));
        data.push(json!({"block": block, "to": to, "hash": hash}));
    }
    output.result(lines.join("\n"), json!({"coin": coin, "transfers": data}));
    Ok(())
}

/// Checks a coin as its receiver does, keeps what is final, and says how it stands.
async fn receive(
    context: &Context,
    coin: Option<CoinId>,
    file: Option<&Path>,
    no_node: bool,
    output: &Output,
) -> CommandResult<()> {
    let file = file.map(open_file).transpose()?;
    let coin = coin.or(file.as_ref().map(|file| file.header().coin)).unwrap_or_default();
    let node = if no_node { None } else { Some(context.node()?) };
    let view = View::read(context).await?;
    let mut source = Source { file, node: node.as_ref() };
    let Checked { last_final, latest, latest_error, .. } =
        checked(context, &view, coin, &mut source).await?;
    let state = last_final.state();
    let moved: Vec<BlockNumber> = last_final.moves().map(|shown| shown.block).collect();
    let mut text = format!(
        "coin {coin} verified up to block {} at Ethereum's finalized block {}\n\
         owner {} since block {}\nmoved in {moved:?}",
        last_final.checked(),
        view.finalized_number,
        state.owner,
        state.block
    );
    let mut pending = Vec::new();
    for shown in latest.moves().filter(|shown| shown.block > last_final.checked()) {
        let to = shown.transfer.transfer.new_owner;
        text += &format!("\non Ethereum, not final yet: to {to} in block {}", shown.block);
        pending.push(json!({"block": shown.block, "to": to}));
    }
    if let Some(error) = latest_error {
        output.note(format!("beyond Ethereum's finalized block: {error}"));
    }
    let status = if pending.is_empty() { "received" } else { "on_ethereum" };
    if pending.is_empty() {
        text += "\nreceived";
    }
    let data = json!({"coin": coin, "checked": last_final.checked(), "owner": state.owner,
                      "block": state.block, "hash": state.hash, "moved": moved,
                      "status": status, "on_ethereum": pending});
    output.result(text, data);
    Ok(())
}

/// Checks a coin; refuses one whose exit is open, or which is gone.
async fn checked(
    context: &Context,
    view: &View,
    coin: CoinId,
    source: &mut Source<'_>,
) -> CommandResult<Checked> {
    let deposit = view.deposit(coin).await?;
    if let Some(leaving) = view.leaving(&deposit, coin).await? {
        let what = match leaving {
            Leaving::Exiting => "is exiting",
            Leaving::Gone => "has left Ethereum's contract",
        };
        let help = format!("plasma exit list {coin}");
        return Err(CommandError::no("exiting", format!("coin {coin} {what}"), help));
    }
    let files = coin_files(context, view)?;
    let checked = check(view, &files, coin, deposit, source).await?;
    // A coin without a block since its deposit is kept too.
    files.store(&checked.last_final, &[]).map_err(files_error)?;
    Ok(checked)
}

/// Verifies a coin as its receiver does, by the node and what is kept; its history up to
/// Ethereum's finalized block.
pub async fn verify_coin(context: &Context, coin: CoinId) -> CommandResult<History> {
    let node = context.node()?;
    let view = View::read(context).await?;
    let mut source = Source { file: None, node: Some(&node) };
    Ok(checked(context, &view, coin, &mut source).await?.last_final)
}

async fn export(
    context: &Context,
    coin: CoinId,
    file: Option<&Path>,
    output: &Output,
) -> CommandResult<()> {
    let path = file.map_or_else(|| PathBuf::from(format!("coin-{coin}.history")), Path::to_owned);
    let node = context.node()?;
    let view = View::read(context).await?;
    let mut source = Source { file: None, node: Some(&node) };
    let checked = checked(context, &view, coin, &mut source).await?;
    if let Some(error) = checked.latest_error {
        return Err(error);
    }
    let files = coin_files(context, &view)?;
    let failed = |error| CommandError::failure("history_file", error, "check the path");
    let mut out = BufWriter::new(File::create(&path).map_err(failed)?);
    let bytes = write_portable(&files, &checked, &mut out)?;
    out.flush().map_err(failed)?;
    let (last_final, newest) = (checked.last_final.checked(), checked.latest.checked());
    let text = format!(
        "{}\nblocks {} to {newest} of coin {coin}, final up to {last_final}, {bytes} bytes",
        path.display(),
        checked.latest.deposit().deposit_block + 1
    );
    let data = json!({"coin": coin, "file": path, "newest": newest, "final": last_final,
                      "bytes": bytes});
    output.result(text, data);
    Ok(())
}
