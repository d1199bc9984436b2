//! `plasma exit start` and `plasma exit authorize`.

use std::path::PathBuf;

use plasma_client::challenge::{hint, refute};
use plasma_core::CoinId;
use plasma_core::coin::CoinState;
use plasma_core::exit::age;
use plasma_core::signature::SigningKey;
use plasma_rootchain::contract::{Authorization, ExitStart};
use plasma_rootchain::ethereum::At;
use serde_json::json;

use super::exit_error;
use super::known::{Known, Sources};
use crate::authorization;
use crate::cli;
use crate::context::Context;
use crate::ethereum::eth_error;
use crate::output::{CommandError, CommandResult, Exit, Output};
use crate::time::{parse_duration_s, rfc3339};

/// Runs `exit start`.
pub async fn run(context: &Context, args: &cli::ExitStart, output: &Output) -> CommandResult<()> {
    let key = context.key(&args.from.from, args.from.password_file.as_deref()).await?;
    let opened = start(context, args, &key, output).await?;
    let lines: Vec<String> =
        opened.iter().map(|(coin, exit)| format!("coin {coin} exit {exit}")).collect();
    let list: Vec<_> =
        opened.iter().map(|(coin, exit)| json!({"coin": coin, "exit": exit})).collect();
    let mut data = json!({"exits": list});
    if let [(coin, exit)] = opened[..] {
        data["coin"] = coin.into();
        data["exit"] = exit.into();
    }
    output.result(lines.join("\n"), data);
    Ok(())
}

/// Opens the exits of the coins' last states that are on Ethereum; returns (coin, exit).
pub async fn start(
    context: &Context,
    args: &cli::ExitStart,
    key: &SigningKey,
    output: &Output,
) -> CommandResult<Vec<(CoinId, u64)>> {
    let contract = context.contract()?;
    let sender = context.sender(key).await?;
    let sources = Sources::new(context, &args.history).await?;
    let bond = contract.bond().await.map_err(eth_error)?;
    let mut coins = args.coins.clone();
    coins.sort_unstable();
    coins.dedup();
    let mut exits = Vec::new();
    for coin in coins {
        let known = sources.learn(coin, output).await?;
        known.active()?;
        let (state, transfer) = known.history.claim();
        check(&known, &state)?;
        let authorization = if state.owner == sender.address() {
            None
        } else {
            Some(consent(context, &args.authorization, &known, &sources).await?)
        };
        let deposit = known.history.deposit();
        let parent = match &transfer {
            Some((Some(parent), _)) => parent.block,
            _ => deposit.deposit_block,
        };
        let block = transfer.as_ref().map_or(0, |(_, transfer)| transfer.block);
        warn_of_gap(&known, &sources, output);
        warn_of_others(&known, output);
        output.note(format!(
            "coin {coin}: exit of {} by plasma blocks {parent} and {block}, with a bond of {bond} \
             wei, returned when it wins",
            state.owner
        ));
        let hint = hint(&known.on_chain.open, age(parent, block));
        let deposit_id = deposit.deposit_id;
        exits.push(ExitStart { coin, deposit_id, transfer, authorization, hint });
    }
    let mut opened = Vec::new();
    let done = match &exits[..] {
        [exit] => contract.start_exit(&sender, exit).await.map(|id| opened.push((exit.coin, id))),
        exits => contract.start_exits(&sender, exits, |ids| opened.extend_from_slice(ids)).await,
    };
    if let Err(error) = done {
        if !opened.is_empty() {
            output.note(format!("opened before the failure: {opened:?}"));
        }
        return Err(exit_error(error));
    }
    Ok(opened)
}

/// Refuses an exit that would be lost, or that is open already.
fn check(known: &Known, state: &CoinState) -> CommandResult<()> {
    let coin = state.coin;
    if let Some(block) = known.ahead {
        let message = format!(
            "the last transfer of coin {coin} is in plasma block {block}, not on Ethereum yet"
        );
        let help = format!("plasma block show {block}, then again");
        return Err(CommandError::failure("not_on_ethereum", message, help));
    }
    let open = known.on_chain.open.iter().find(|exit| exit.state_hash == state.hash);
    if let Some(exit) = open {
        let message = format!("exit {} of coin {coin} in this state is open already", exit.id);
        let help = format!("plasma exit show {coin} {}", exit.id);
        return Err(CommandError::new(Exit::Rejected, "exit_exists", message, help));
    }
    Ok(())
}

/// The consent of the owner to the exit of `state`, from one of the files.
async fn consent(
    context: &Context,
    files: &[PathBuf],
    known: &Known,
    sources: &Sources<'_>,
) -> CommandResult<Authorization> {
    let (state, _) = known.history.claim();
    let (coin, owner) = (state.coin, state.owner);
    for file in files {
        let found = authorization::read(file, sources.domain())?;
        if found.coin != coin {
            continue;
        }
        let no = |what: String| {
            let message = format!("{}: {what}", file.display());
            let help = format!("its owner: plasma exit authorize {coin} --not-after 90d");
            Err(CommandError::new(Exit::Rejected, "not_authorised", message, help))
        };
        let not_after = found.authorization.not_after;
        if found.owner != owner {
            let belongs = known.belongs(sources.last());
            return no(format!("signed by {}, but {belongs}", found.owner));
        }
        if found.state_hash != state.hash {
            return no(format!("the consent to the exit of coin {coin} as it was before"));
        }
        if now(context).await? > not_after {
            let message =
                format!("{}: its time was over at {}", file.display(), rfc3339(not_after));
            let help = format!("its owner: plasma exit authorize {coin} --not-after 90d");
            return Err(CommandError::usage(message, help));
        }
        return Ok(found.authorization);
    }
    let help = if known.until < sources.last() {
        format!("the rest of its history: --history FILE (plasma coin export {coin} FILE)")
    } else {
        format!("--from its owner, or --authorization with his: plasma exit authorize {coin}")
    };
    Err(CommandError::new(Exit::Rejected, "not_owner", known.belongs(sources.last()), help))
}

/// Says that the coin may have been spent since: its exit would be refuted, and the bond be lost.
fn warn_of_gap(known: &Known, sources: &Sources<'_>, output: &Output) {
    let (coin, until, last) = (known.history.coin(), known.until, sources.last());
    if until < last {
        output.note(format!(
            "what plasma blocks {} to {last} hold of coin {coin} is unknown: if it was spent \
             there, the bond is lost",
            until + 1
        ));
    }
}

/// Says which open exits stand in the way.
fn warn_of_others(known: &Known, output: &Output) {
    let history = &known.history;
    let (coin, domain) = (history.coin(), history.domain());
    for exit in &known.on_chain.open {
        let found = refute(exit, history.deposit(), coin, history.included(), domain);
        let advice = match found {
            Some(_) => format!("refute it: plasma exit challenge {coin} {}", exit.id),
            None => "nothing known refutes it".to_owned(),
        };
        output.note(format!("exit {} of {} is open: {advice}", exit.id, exit.beneficiary));
    }
}

/// Time of Ethereum's latest block.
async fn now(context: &Context) -> CommandResult<u64> {
    let head = context.ethereum()?.head(At::Latest).await.map_err(eth_error)?;
    Ok(head.map_or(0, |head| head.timestamp))
}

/// Runs `exit authorize`.
pub async fn authorize(
    context: &Context,
    args: &cli::ExitAuthorize,
    output: &Output,
) -> CommandResult<()> {
    let key = context.key(&args.from.from, args.from.password_file.as_deref()).await?;
    let sources = Sources::new(context, &args.history).await?;
    let known = sources.learn(args.coin, output).await?;
    known.active()?;
    let (state, _) = known.history.claim();
    check(&known, &state)?;
    if state.owner != key.address() {
        let message = format!("{}, not {}", known.belongs(sources.last()), key.address());
        return Err(CommandError::new(Exit::Rejected, "not_owner", message, "--from its owner"));
    }
    let not_after = match args.not_after.parse() {
        Ok(seconds) => seconds,
        Err(_) => {
            let period = parse_duration_s(&args.not_after)
                .map_err(|error| CommandError::usage(error, "plasma exit authorize --help"))?;
            now(context).await?.saturating_add(period)
        }
    };
    output.note(format!(
        "whoever has this may start the exit of coin {} as it is now, until {}; it can only pay {}",
        args.coin,
        rfc3339(not_after),
        state.owner
    ));
    let file = authorization::sign(&state, not_after, &key, sources.domain());
    output.result(format!("{file:#}"), file);
    Ok(())
}
