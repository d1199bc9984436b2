//! The attacks of the demos, and how an owner who watches is paid all the same.

use plasma_client::challenge::Challenge;
use plasma_client::transfer::sign;
use plasma_core::coin::CoinState;
use plasma_core::transfer::Transfer;
use plasma_core::{B256, CoinId};
use serde_json::json;

use super::account;
use super::operator::Operator;
use super::stage::{Stage, lost};
use crate::commands::coin;
use crate::context::{Context, deposit_of, is_revert};
use crate::output::{CommandResult, Output};

/// The coin's state at its deposit.
async fn first_state(stage: &Stage<'_>, coin: CoinId) -> CommandResult<CoinState> {
    Ok(deposit_of(&stage.contract, coin).await?.state(coin, &stage.params.domain()))
}

fn result(output: &Output, text: &str, coin: CoinId, exits: [u64; 2]) {
    let [stolen, honest] = exits;
    let data = json!({"coin": coin, "stolen_exit": stolen, "honest_exit": honest, "paid": true});
    output.result(text, data);
}

/// Alice exits a coin that she has sent to bob.
pub async fn spent_coin(context: &Context, output: &Output) -> CommandResult<()> {
    let stage = Stage::new(context).await?;
    let coin = stage.deposit("alice").await?;
    output.note(format!("1  alice deposited 1 ether: coin {coin}"));
    stage.send(coin, "alice", "bob").await?;
    let block = stage.await_root(coin).await?;
    output.note(format!("2  she sent it to bob: plasma block {block}, on Ethereum and final"));
    let bob_had = stage.balance("bob").await?;
    let theft = stage.steal(coin, "alice", None).await?;
    output.note(format!("3  alice exits the deposit that she has spent: exit {}", theft.exit));
    let Challenge::Spent { spend, included: None } = stage.challenge(&theft, "bob").await? else {
        return Err(lost("another challenge"));
    };
    stage.punished(&theft).await?;
    output.note(format!("4  bob shows that plasma block {} spends it: refuted", spend.block));
    output.note("5  half of alice's bond is bob's, half is burned; the coin is held for 7 days");
    let honest = stage.start(coin, "bob").await?;
    output.note(format!("6  bob exits his own state: exit {honest}"));
    stage.days(15).await?;
    output.note("7  15 days passed");
    stage.take(coin, "bob", bob_had).await?;
    result(
        output,
        "8  bob has the ether, his bond and half of hers: paid",
        coin,
        [theft.exit, honest],
    );
    Ok(())
}

/// The operator includes a second transfer of alice's, to mallory.
pub async fn double_spend(context: &Context, output: &Output) -> CommandResult<()> {
    let stage = Stage::new(context).await?;
    let operator = Operator::new(&stage).await?;
    let coin = stage.deposit("alice").await?;
    let state = first_state(&stage, coin).await?;
    output.note(format!("1  alice deposited 1 ether: coin {coin}"));
    stage.send(coin, "alice", "bob").await?;
    let block = stage.await_root(coin).await?;
    output.note(format!("2  she sent it to bob: plasma block {block}, on Ethereum and final"));
    let (alice, mallory) = (account("alice")?, account("mallory")?.address());
    let max_block = operator.next_block().await?;
    let second = sign(&state, mallory, max_block, &alice, &stage.params.domain());
    let forged = operator.forge(second).await?;
    output.note(format!(
        "3  the operator certifies plasma block {} with her second transfer, to mallory",
        forged.block
    ));
    let bob_had = stage.balance("bob").await?;
    let theft = stage.steal(coin, "mallory", Some((None, forged))).await?;
    output
        .note(format!("4  mallory exits by it, a valid child of the deposit: exit {}", theft.exit));
    let Challenge::DoubleSpend { other } = stage.challenge(&theft, "bob").await? else {
        return Err(lost("another challenge"));
    };
    stage.punished(&theft).await?;
    output.note(format!(
        "5  bob shows that plasma block {} spent the deposit before: refuted",
        other.block
    ));
    output.note("6  half of mallory's bond is bob's, half is burned");
    let honest = stage.start(coin, "bob").await?;
    output.note(format!("7  bob exits his own state: exit {honest}"));
    stage.days(15).await?;
    output.note("8  15 days passed");
    stage.take(coin, "bob", bob_had).await?;
    result(
        output,
        "9  bob has the ether and half of mallory's bond: paid",
        coin,
        [theft.exit, honest],
    );
    Ok(())
}

/// The operator puts garbage in the coin's place and lets mallory exit from it.
pub async fn invalid_history(context: &Context, output: &Output) -> CommandResult<()> {
    let stage = Stage::new(context).await?;
    let operator = Operator::new(&stage).await?;
    let coin = stage.deposit("alice").await?;
    output.note(format!("1  alice deposited 1 ether: coin {coin}"));
    stage.send(coin, "alice", "bob").await?;
    let block = stage.await_root(coin).await?;
    output.note(format!("2  she sent it to bob: plasma block {block}, on Ethereum and final"));
    let (mallory, domain) = (account("mallory")?, stage.params.domain());
    let garbage = Transfer {
        coin,
        prev_block: block,
        prev_hash: B256::repeat_byte(0xba),
        new_owner: mallory.address(),
        max_block: u64::MAX,
    };
    let garbage = operator.forge(garbage.sign(&mallory, &domain)).await?;
    output.note(format!(
        "3  the operator certifies plasma block {} with garbage that makes mallory the owner",
        garbage.block
    ));
    let state = CoinState {
        coin,
        owner: mallory.address(),
        block: garbage.block,
        hash: garbage.transfer.transfer.digest(&domain),
    };
    let child = sign(&state, mallory.address(), u64::MAX, &mallory, &domain);
    let child = operator.forge(child).await?;
    output.note(format!("4  and block {} with her valid transfer of that garbage", child.block));
    let bob_had = stage.balance("bob").await?;
    let theft = stage.steal(coin, "mallory", Some((Some(garbage), child))).await?;
    output.note(format!(
        "5  mallory exits: exit {}; no challenge fits a history of garbage",
        theft.exit
    ));
    if stage.challenge(&theft, "bob").await.is_ok() {
        return Err(lost("the exit from garbage was refuted"));
    }
    let honest = stage.start(coin, "bob").await?;
    output.note(format!("6  bob exits at once: exit {honest} is older, for its parent is"));
    stage.days(15).await?;
    output.note("7  15 days passed; the oldest exit wins: bob's");
    stage.take(coin, "bob", bob_had).await?;
    stage.punished(&theft).await?;
    output.note("8  mallory's exit is swept: half of her bond is bob's, half is burned");
    result(
        output,
        "9  bob has the ether and half of mallory's bond: paid",
        coin,
        [theft.exit, honest],
    );
    Ok(())
}

/// The operator withholds a block and reveals it when the owner's exit is nearly over.
pub async fn withheld_block(context: &Context, output: &Output) -> CommandResult<()> {
    let stage = Stage::new(context).await?;
    let operator = Operator::new(&stage).await?;
    let coin = stage.deposit("alice").await?;
    let state = first_state(&stage, coin).await?;
    stage.send(coin, "alice", "bob").await?;
    // Each height closes a plasma block here, so that the coin moves again at once.
    stage.send(coin, "bob", "carol").await?;
    let block = stage.await_root(coin).await?;
    output.note(format!("1  coin {coin}, 1 ether, went from alice to bob to carol: block {block}"));
    let (alice, mallory) = (account("alice")?, account("mallory")?.address());
    let max_block = operator.next_block().await?;
    let second = sign(&state, mallory, max_block, &alice, &stage.params.domain());
    let withheld = operator.forge(second).await?;
    stage.await_stored(withheld.block).await?;
    output.note(format!(
        "2  the operator stores block {}, and shows nobody what is in it",
        max_block
    ));
    let Err(unseen) = coin::verify_coin(context, coin).await else {
        return Err(lost("the withheld block was verified"));
    };
    output.note(format!("3  carol checks her coin: {unseen}"));
    let carol_had = stage.balance("carol").await?;
    let honest = stage.start(coin, "carol").await?;
    output.note(format!("4  she exits at once by what she has: exit {honest}"));
    stage.days(13).await?;
    let theft = stage.steal(coin, "mallory", Some((None, withheld))).await?;
    output.note("5  13 days later mallory reveals it: a second transfer of alice's, to herself");
    output.note(format!(
        "6  her exit {} is older than carol's: it would win when its time is over",
        theft.exit
    ));
    stage.challenge(&theft, "carol").await?;
    stage.punished(&theft).await?;
    output.note("7  carol shows that alice had spent the deposit before: refuted, bond lost");
    stage.days(2).await?;
    let sender = context.sender(&account("carol")?).await?;
    match stage.contract.finalize(&sender, coin).await {
        Err(error) if is_revert(&error, "OnHold") => {}
        other => return Err(lost(format!("finalizing on hold: {other:?}"))),
    }
    output.note("8  carol's 14 days are over, but the coin is held for 7 days: time for reveals");
    stage.days(6).await?;
    stage.take(coin, "carol", carol_had).await?;
    result(
        output,
        "9  nobody revealed more: carol has the ether: paid",
        coin,
        [theft.exit, honest],
    );
    Ok(())
}
