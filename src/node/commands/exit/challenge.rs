//! `plasma exit challenge` and `plasma exit show`.

use plasma_client::challenge::{Challenge, OpenExit, refute};
use plasma_core::CoinId;
use plasma_core::signature::SigningKey;
use plasma_rootchain::contract::{RootChain, RootChainContract};
use plasma_rootchain::ethereum::At;
use serde_json::{Value, json};

use super::known::{Known, Sources};
use super::{exit_error, no_exit};
use crate::cli;
use crate::context::Context;
use crate::ethereum::eth_error;
use crate::output::{CommandError, CommandResult, Output};
use crate::time::rfc3339;

/// Runs `exit challenge`.
pub async fn run(
    context: &Context,
    args: &cli::ExitChallenge,
    output: &Output,
) -> CommandResult<()> {
    let key = context.key(&args.from.from, args.from.password_file.as_deref()).await?;
    let refuted = challenge(context, args, &key, output).await?;
    let coin = args.coin;
    let lines: Vec<String> = refuted
        .iter()
        .map(|(exit, challenge)| format!("exit {exit} {}", told(challenge)))
        .collect();
    let list: Vec<Value> = refuted
        .iter()
        .map(|(exit, challenge)| {
            let (kind, block) = kind(challenge);
            json!({"exit": exit, "kind": kind, "evidence_block": block})
        })
        .collect();
    output.result(lines.join("\n"), json!({"coin": coin, "refuted": list}));
    Ok(())
}

/// Refutes the given open exit of a coin, or every one that can be refuted.
pub async fn challenge(
    context: &Context,
    args: &cli::ExitChallenge,
    key: &SigningKey,
    output: &Output,
) -> CommandResult<Vec<(u64, Challenge)>> {
    let contract = context.contract()?;
    let sender = context.sender(key).await?;
    let sources = Sources::new(context, &args.history).await?;
    let known = sources.learn(args.coin, output).await?;
    known.active()?;
    let plan = plan(&known, args.exit)?;
    let mut refuted = Vec::new();
    for (exit, challenge) in plan {
        let reward = reward(&contract, exit.bond).await?;
        output.note(format!(
            "exit {} of {} {}: its bond is lost, {reward} wei of it go to {}",
            exit.id,
            exit.beneficiary,
            told(&challenge),
            sender.address()
        ));
        let done = contract.challenge(&sender, args.coin, exit.id, &challenge).await;
        done.map_err(exit_error)?;
        refuted.push((exit.id, challenge));
    }
    Ok(refuted)
}

/// Which exits are refuted with what; an error if there is nothing to do.
fn plan(known: &Known, wanted: Option<u64>) -> CommandResult<Vec<(OpenExit, Challenge)>> {
    let (history, coin) = (&known.history, known.history.coin());
    let open = known.on_chain.open.iter().filter(|exit| wanted.is_none_or(|id| exit.id == id));
    let open: Vec<&OpenExit> = open.collect();
    if open.is_empty() {
        return Err(no_exit(coin, wanted));
    }
    let found = open.iter().filter_map(|exit| Some((**exit, refutation(known, exit)?)));
    let plan: Vec<_> = found.collect();
    if plan.is_empty() {
        let ids: Vec<String> = open.iter().map(|exit| exit.id.to_string()).collect();
        let message =
            format!("nothing that is known of coin {coin} refutes exit {}", ids.join(", "));
        let (state, _) = history.claim();
        let ours = open.iter().any(|exit| exit.state_hash == state.hash);
        let help = if ours {
            format!(
                "exit it is of the last state that is known: plasma exit show {coin} {}",
                ids[0]
            )
        } else {
            format!("its owner, with an exit of his own: plasma exit start {coin}")
        };
        return Err(CommandError::no("not_refutable", message, help));
    }
    Ok(plan)
}

fn refutation(known: &Known, exit: &OpenExit) -> Option<Challenge> {
    let history = &known.history;
    refute(exit, history.deposit(), history.coin(), history.included(), history.domain())
}

/// Name of a challenge and the block of its evidence.
fn kind(challenge: &Challenge) -> (&'static str, u64) {
    match challenge {
        Challenge::Spent { spend, .. } => ("spent", spend.block),
        Challenge::DoubleSpend { other } => ("double_spend", other.block),
    }
}

/// A challenge in words.
fn told(challenge: &Challenge) -> String {
    match challenge {
        Challenge::Spent { spend, included: None } => {
            format!("is refuted: plasma block {} spends its state", spend.block)
        }
        Challenge::Spent { spend, included: Some((again, _)) } => format!(
            "is refuted: its transfer is in plasma block {again} too, and block {} spends it there",
            spend.block
        ),
        Challenge::DoubleSpend { other } => format!(
            "is refuted: plasma block {} spent its parent before, by another transfer",
            other.block
        ),
    }
}

/// What a challenger gets of a bond.
async fn reward(contract: &RootChainContract, bond: u128) -> CommandResult<u128> {
    let bps = contract.read(RootChain::burnBpsCall {}, At::Latest).await.map_err(eth_error)?;
    Ok(bond - bond.saturating_mul(bps.into()) / 10_000)
}

/// Runs `exit show`: all of one exit.
pub async fn show(context: &Context, args: &cli::ExitShow, output: &Output) -> CommandResult<()> {
    let contract = context.contract()?;
    let (coin, id) = (args.coin, args.exit);
    let found = contract.exit(coin, id, At::Latest).await.map_err(eth_error)?;
    let (exit, state) = found.ok_or_else(|| no_exit(coin, Some(id)))?;
    let sources = Sources::new(context, &args.history).await?;
    let known = sources.learn(coin, output).await?;
    let position = known.on_chain.open.iter().position(|open| open.id == id);
    let state = ["none", "open", "closed", "won"].get(usize::from(state)).unwrap_or(&"?");
    let active = known.on_chain.status == 0 && position.is_some();
    let refuted_by = refutation(&known, &exit).filter(|_| active);
    let ends = exit.opened_at.saturating_add(contract.exit_period().await.map_err(eth_error)?);
    let hold = known.on_chain.hold_until;
    let mut lines = vec![
        format!("exit {id} of coin {coin}  {state}{}", place(active, position)),
        format!("beneficiary  {}", exit.beneficiary),
        format!("payer        {}, bond {} wei", exit.payer, exit.bond),
        format!("age          plasma blocks {} and {}", exit.parent_block, exit.block),
        format!("state        {}", exit.state_hash),
    ];
    if !exit.of_deposit() {
        lines.push(format!("parent       {} of {}", exit.parent_hash, exit.parent_owner));
    }
    lines.push(format!("opened       {}", rfc3339(exit.opened_at)));
    lines.push(format!("period ends  {}", rfc3339(ends)));
    if hold > 0 {
        lines.push(format!("hold ends    {}", rfc3339(hold)));
    }
    if active {
        let word = refuted_by.as_ref().map_or("nothing known refutes it".into(), told);
        lines.push(format!("challenge    {word}"));
    }
    let refutable = refuted_by.as_ref().map(|challenge| {
        let (kind, block) = kind(challenge);
        json!({"kind": kind, "evidence_block": block})
    });
    let mut data = fields(coin, &exit);
    data["state"] = (*state).into();
    data["place"] = position.filter(|_| active).into();
    data["ends_after"] = ends.into();
    data["hold_until"] = hold.into();
    data["refutable"] = refutable.into();
    output.result(lines.join("\n"), data);
    Ok(())
}

fn place(active: bool, position: Option<usize>) -> String {
    match position.filter(|_| active) {
        Some(0) => ", the oldest: it wins if nobody refutes it".into(),
        Some(older) => format!(", younger than {older} other(s)"),
        None => String::new(),
    }
}

/// What the contract stores of an exit.
pub fn fields(coin: CoinId, exit: &OpenExit) -> Value {
    json!({
        "coin": coin, "exit": exit.id, "beneficiary": exit.beneficiary, "payer": exit.payer,
        "bond": exit.bond.to_string(), "age": exit.age().to_string(),
        "parent_block": exit.parent_block, "block": exit.block, "state_hash": exit.state_hash,
        "parent_hash": exit.parent_hash, "parent_owner": exit.parent_owner,
        "opened_at": exit.opened_at,
    })
}
