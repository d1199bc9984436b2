//! `plasma exit`.

mod challenge;
mod known;
mod start;

pub use challenge::challenge;
pub use start::start;

use plasma_core::CoinId;
use plasma_core::signature::SigningKey;
use plasma_rootchain::contract::RootChainContract;
use plasma_rootchain::ethereum::{At, EthError, Sender};
use serde_json::json;

use crate::cli::{Exit, ExitId, From};
use crate::context::{Context, deposit_of};
use crate::ethereum::eth_error;
use crate::output::{CommandError, CommandResult, Output};
use crate::time::rfc3339;

/// Runs it.
pub async fn run(context: &Context, command: &Exit, output: &Output) -> CommandResult<()> {
    match command {
        Exit::Start(args) => start::run(context, args, output).await,
        Exit::Authorize(args) => start::authorize(context, args, output).await,
        Exit::Challenge(args) => challenge::run(context, args, output).await,
        Exit::Show(args) => challenge::show(context, args, output).await,
        Exit::List { coin } => list(context, *coin, output).await,
        Exit::Finalize { coins, from } => finalize(context, coins, from, output).await,
        Exit::Withdraw { coins, from } => {
            let key = context.key(&from.from, from.password_file.as_deref()).await?;
            let bond = withdraw(context, coins, &key).await?;
            let text = match (&coins[..], bond) {
                ([], false) => {
                    let message = format!("nothing is owed to {}", key.address());
                    return Err(CommandError::no("no_credits", message, "plasma exit list COIN"));
                }
                ([], true) => "the bonds paid out".to_owned(),
                (coins, true) => format!("{} paid out, and the bond", told(coins)),
                (coins, false) => format!("{} paid out", told(coins)),
            };
            output.result(text, json!({"coins": coins, "bond": bond}));
            Ok(())
        }
        Exit::Sweep(args) => sweep(context, args, output).await,
        Exit::Cancel(args) => cancel(context, args, output).await,
    }
}

/// `coin 1`, `coins 1, 2`.
fn told(coins: &[CoinId]) -> String {
    let list: Vec<String> = coins.iter().map(u64::to_string).collect();
    format!("coin{} {}", if coins.len() == 1 { "" } else { "s" }, list.join(", "))
}

/// The contract's refusal with the next command to try.
fn exit_error(error: EthError) -> CommandError {
    let help = match &error {
        EthError::Reverted(name) => match name.as_str() {
            "TooEarly" | "OnHold" => {
                "plasma exit list COIN (on the devnet: plasma devnet warp 15d)"
            }
            "NotExited" => "plasma exit finalize COIN",
            "OtherExitsOpen" => "plasma exit challenge COIN",
            "NotBeneficiary" | "NotAuthorised" => {
                "--from the beneficiary (plasma exit list COIN); bonds alone: plasma exit withdraw"
            }
            "NotIncluded" => "plasma block show: is the block on Ethereum?",
            "NoCredits" => "nothing is owed to this account",
            _ => "plasma exit list COIN",
        },
        _ => return eth_error(error),
    };
    CommandError { help: help.into(), ..eth_error(error) }
}

/// There is no such open exit.
fn no_exit(coin: CoinId, exit: Option<u64>) -> CommandError {
    let message = match exit {
        Some(id) => format!("coin {coin} has no open exit {id}"),
        None => format!("no exit of coin {coin} is open"),
    };
    CommandError::no("no_exit", message, format!("plasma exit list {coin}"))
}

async fn finalize(
    context: &Context,
    coins: &[CoinId],
    from: &From,
    output: &Output,
) -> CommandResult<()> {
    let key = context.key(&from.from, from.password_file.as_deref()).await?;
    let sender = context.sender(&key).await?;
    let contract = context.contract()?;
    let finalized = match coins {
        // Alone it is told why not.
        [coin] => {
            contract.finalize(&sender, *coin).await.map_err(exit_error)?;
            vec![*coin]
        }
        coins => contract.finalize_many(&sender, coins).await.map_err(exit_error)?,
    };
    let skipped: Vec<CoinId> =
        coins.iter().copied().filter(|coin| !finalized.contains(coin)).collect();
    if finalized.is_empty() {
        let message = format!("none of {} is won: too early, on hold or no exit", told(coins));
        return Err(CommandError::no("none_finalized", message, "plasma exit list COIN"));
    }
    let mut text = format!("{} finalized", told(&finalized));
    if !skipped.is_empty() {
        text += &format!("; not won: {}", told(&skipped));
    }
    output.result(text, json!({"coins": finalized, "skipped": skipped}));
    Ok(())
}

/// Pays out finalized coins and the caller's bonds; true if there were any.
pub async fn withdraw(
    context: &Context,
    coins: &[CoinId],
    key: &SigningKey,
) -> CommandResult<bool> {
    let contract = context.contract()?;
    let sender = context.sender(key).await?;
    match coins {
        [coin] => contract.withdraw(&sender, *coin).await.map_err(exit_error)?,
        coins => {
            if let Err(error) = contract.withdraw_many(&sender, coins).await {
                return Err(first_refused(&contract, &sender, coins, error).await);
            }
        }
    }
    contract.withdraw_credits(&sender).await.map_err(exit_error)
}

/// A refusal of many withdrawals with the coin that it is about.
async fn first_refused(
    contract: &RootChainContract,
    sender: &Sender,
    coins: &[CoinId],
    error: EthError,
) -> CommandError {
    for coin in coins {
        if let Err(EthError::Reverted(name)) = contract.try_withdraw(sender, *coin).await {
            let error = exit_error(EthError::Reverted(name));
            return CommandError { message: format!("coin {coin}: {}", error.message), ..error };
        }
    }
    exit_error(error)
}

async fn sweep(context: &Context, args: &ExitId, output: &Output) -> CommandResult<()> {
    let key = context.key(&args.from.from, args.from.password_file.as_deref()).await?;
    let swept = sweep_coin(context, args.coin, args.exit, &key).await?;
    let ids: Vec<String> = swept.iter().map(u64::to_string).collect();
    let text = format!("exit {} of coin {} closed", ids.join(", "), args.coin);
    output.result(text, json!({"coin": args.coin, "exits": swept}));
    Ok(())
}

/// Closes the given exit of a finalized coin, or every one that did not win.
pub async fn sweep_coin(
    context: &Context,
    coin: CoinId,
    exit: Option<u64>,
    key: &SigningKey,
) -> CommandResult<Vec<u64>> {
    let contract = context.contract()?;
    let sender = context.sender(key).await?;
    let ids = match exit {
        Some(id) => vec![id],
        None => some_open(context, coin).await?,
    };
    for id in &ids {
        contract.sweep(&sender, coin, *id).await.map_err(exit_error)?;
    }
    Ok(ids)
}

/// Ids of a coin's open exits.
pub async fn open_exits(context: &Context, coin: CoinId) -> CommandResult<Vec<u64>> {
    let contract = context.contract()?;
    let deposit = deposit_of(&contract, coin).await?;
    let state = contract.coin(coin, deposit.deposit_id, At::Latest).await.map_err(eth_error)?;
    Ok(state.open.iter().map(|exit| exit.id).collect())
}

/// The same; an error if there are none.
async fn some_open(context: &Context, coin: CoinId) -> CommandResult<Vec<u64>> {
    let open = open_exits(context, coin).await?;
    if open.is_empty() { Err(no_exit(coin, None)) } else { Ok(open) }
}

async fn cancel(context: &Context, args: &ExitId, output: &Output) -> CommandResult<()> {
    let key = context.key(&args.from.from, args.from.password_file.as_deref()).await?;
    let sender = context.sender(&key).await?;
    let coin = args.coin;
    let open = match args.exit {
        Some(id) => vec![id],
        None => some_open(context, coin).await?,
    };
    let [id] = open[..] else {
        let message = format!("exits {open:?} of coin {coin} are open: none can be taken back");
        let help = format!("plasma exit challenge {coin}");
        return Err(CommandError::no("other_exits_open", message, help));
    };
    output.note("the burned share of the bond is lost; the rest comes back to its payer");
    context.contract()?.cancel(&sender, coin, id).await.map_err(exit_error)?;
    output
        .result(format!("exit {id} of coin {coin} taken back"), json!({"coin": coin, "exit": id}));
    Ok(())
}

async fn list(context: &Context, coin: CoinId, output: &Output) -> CommandResult<()> {
    let contract = context.contract()?;
    let deposit = deposit_of(&contract, coin).await?;
    let state = contract.coin(coin, deposit.deposit_id, At::Latest).await.map_err(eth_error)?;
    let period = contract.exit_period().await.map_err(eth_error)?;
    let status = ["active", "exited", "withdrawn"].get(usize::from(state.status)).unwrap_or(&"?");
    let mut lines = vec![format!("coin {coin} {status}")];
    let mut exits = Vec::new();
    for open in &state.open {
        let ends = open.opened_at.saturating_add(period);
        let mut line = format!("exit {} of {}", open.id, open.beneficiary);
        if state.status == 0 {
            line += &format!(" ends after {}", rfc3339(ends));
        } else {
            line += &format!(" lost: plasma exit sweep {coin}");
        }
        lines.push(line);
        let mut fields = challenge::fields(coin, open);
        fields["ends_after"] = ends.into();
        exits.push(fields);
    }
    if state.hold_until > 0 && state.status == 0 {
        lines.push(format!("on hold until {}", rfc3339(state.hold_until)));
    }
    let data = json!({"coin": coin, "status": status, "hold_until": state.hold_until,
                      "exits": exits});
    output.result(lines.join("\n"), data);
    Ok(())
}
