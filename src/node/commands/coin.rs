//! `plasma coin`.

use std::collections::BTreeMap;

use plasma_client::history::{History, HistoryError, follow};
use plasma_client::queries::CoinAnswer;
use plasma_core::{B256, BlockNumber, CoinId};
use plasma_rootchain::contract::RootChainContract;
use plasma_rootchain::ethereum::At;
use serde_json::json;

use crate::cli::Coin;
use crate::context::{Context, deposit_of, find_coin, rpc_error, unknown_coin};
use crate::ethereum::eth_error;
use crate::output::{CommandError, CommandResult, Output};

/// Runs it.
pub async fn run(context: &Context, command: &Coin, output: &Output) -> CommandResult<()> {
    match command {
        Coin::Show { coin } => show(context, *coin, output).await,
        Coin::List { owner } => list(context, owner, output).await,
        Coin::History { coin, verify: true } => {
            let verified = verify_coin(context, *coin).await?;
            let (checked, state) = (verified.checked(), verified.state());
            let moved: Vec<BlockNumber> = verified.moves().map(|shown| shown.block).collect();
            let text = format!(
                "coin {coin} verified up to block {checked} on Ethereum\nowner {}\n\
                 moved in {moved:?}",
                state.owner
            );
            let data = json!({"coin": coin, "checked": checked, "owner": state.owner,
                              "block": state.block, "hash": state.hash, "moved": moved});
            output.result(text, data);
            Ok(())
        }
        Coin::History { coin, verify: false } => history(context, *coin, output).await,
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
    let deposit = deposit_of(&context.contract()?, coin).await?;
    let text = format!(
        "coin {coin}\nowner  {}\nvalue  {}\nstatus {status}\nblock  {}\nhash   {}",
        known.state.owner, deposit.value, known.state.block, known.state.hash
    );
    let data = json!({
        "coin": coin, "owner": known.state.owner, "value": deposit.value.to_string(),
        "asset_kind": deposit.asset_kind, "token": deposit.token, "status": status,
        "block": known.state.block, "hash": known.state.hash, "deposit": deposit.deposit_id,
    });
    output.result(text, data);
    Ok(())
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

/// The roots of blocks `from ..= to` at a block of Ethereum.
async fn roots(
    contract: &RootChainContract,
    from: BlockNumber,
    to: BlockNumber,
    at: At,
) -> CommandResult<BTreeMap<BlockNumber, B256>> {
    let mut roots = BTreeMap::new();
    for number in from..=to {
        if let Some(root) = contract.root(number, at).await.map_err(eth_error)? {
            roots.insert(number, root);
        }
    }
    Ok(roots)
}

/// Verifies a coin as its receiver does: every block since the deposit against the roots at
/// Ethereum's finalized block, and no exit of it is open there or at the latest block.
pub async fn verify_coin(context: &Context, coin: CoinId) -> CommandResult<History> {
    let contract = context.contract()?;
    let node = context.node()?;
    let domain = context.checked_params(&node).await?.domain();
    let head = contract.ethereum.head(At::Finalized).await.map_err(eth_error)?;
    let finalized = At::Number(head.map_or(0, |head| head.number));
    let deposit = contract.deposit_of(coin, finalized).await.map_err(eth_error)?;
    let deposit = deposit.ok_or_else(|| {
        let message = format!("the deposit of coin {coin} is not finalized on Ethereum");
        CommandError::no("not_finalized", message, "wait, then again")
    })?;
    for at in [finalized, At::Latest] {
        let state = contract.coin(coin, deposit.deposit_id, at).await.map_err(eth_error)?;
        if state.status != 0 || !state.open.is_empty() {
            let message = format!("coin {coin} is exiting or has left Ethereum's contract");
            return Err(CommandError::no("exiting", message, format!("plasma exit list {coin}")));
        }
    }
    let newest = contract.last_block(finalized).await.map_err(eth_error)?;
    let mut history = History::new(coin, deposit, domain).map_err(history_error)?;
    let roots = roots(&contract, history.checked() + 1, newest, finalized).await?;
    let followed = follow(&node, &mut history, newest, |n| roots.get(&n).copied(), |_| ()).await;
    followed.and_then(|()| history.refuse_garbage()).map_err(history_error)?;
    Ok(history)
}

/// A history's error as a command's.
fn history_error(error: HistoryError) -> CommandError {
    match error {
        HistoryError::Rpc(error) => rpc_error(error),
        other => {
            let help = "refuse the coin; its owner: plasma exit start COIN";
            CommandError::no("history", other, help)
        }
    }
}
