//! What everybody in a demo does: deposit, send, exit, wait and be paid.

use std::time::{Duration, Instant};

use plasma_client::challenge::Challenge;
use plasma_client::history::ExitPair;
use plasma_client::rpc::{Broadcast, NodeClient};
use plasma_core::coin::asset;
use plasma_core::state::Params;
use plasma_core::{Address, BlockNumber, CoinId, U256};
use plasma_rootchain::contract::{ExitStart, RootChain, RootChainContract};
use plasma_rootchain::ethereum::At;

use super::account;
use crate::cli;
use crate::commands::deposit::wait_for;
use crate::commands::devnet::warp;
use crate::commands::exit;
use crate::commands::transfer::{accepted, await_inclusion, build};
use crate::context::{Context, deposit_of, rpc_error};
use crate::ethereum::eth_error;
use crate::output::{CommandError, CommandResult, Output};

/// How long a root may take to Ethereum.
const ROOT_MAX: Duration = Duration::from_secs(120);
/// Blocks in which a demo's transfer counts.
const MARGIN: u64 = 20;

/// A network and its contract; accounts are named.
pub struct Stage<'a> {
    pub context: &'a Context,
    pub contract: RootChainContract,
    pub node: NodeClient,
    pub params: Params,
    /// The commands' own remarks: a demo tells its story itself.
    quiet: Output,
}

/// An exit that a thief has opened, and what he and the fire had before.
pub struct Theft {
    pub exit: u64,
    coin: CoinId,
    thief: Address,
    credits: U256,
    burned: U256,
}

/// Wei of the coin of a demo.
fn value() -> U256 {
    U256::from(10).pow(U256::from(18))
}

/// The demo did not end as it must.
pub fn lost(message: impl std::fmt::Display) -> CommandError {
    CommandError::failure("demo_lost", message, "see the devnet's logs")
}

fn from(name: &str) -> cli::From {
    cli::From { from: name.into(), password_file: None }
}

impl<'a> Stage<'a> {
    pub async fn new(context: &'a Context) -> CommandResult<Self> {
        let (contract, node) = (context.contract()?, context.node()?);
        let params = context.checked_params(&node).await?;
        Ok(Self { context, contract, node, params, quiet: Output::new(false, true) })
    }

    /// Deposits a coin of 1 ether and waits until the child chain has it.
    pub async fn deposit(&self, owner: &str) -> CommandResult<CoinId> {
        let sender = self.context.sender(&account(owner)?).await?;
        let eth = (Address::ZERO, U256::ZERO);
        let made = self.contract.make_deposit(&sender, asset::ETH, eth, value(), 1).await;
        let (coin, _) = made.map_err(eth_error)?;
        wait_for(self.context, coin).await?;
        Ok(coin)
    }

    /// Sends a coin and waits until it is in a block; how long that took.
    pub async fn send(&self, coin: CoinId, owner: &str, to: &str) -> CommandResult<Duration> {
        let (owner, to) = (account(owner)?, account(to)?.address());
        let max_block = self.node.tip().await.map_err(rpc_error)?.next_block() + MARGIN;
        let built = build(&self.node, &self.params, &[coin], &owner, to, max_block).await?;
        let tx = built.0.encode();
        let started = Instant::now();
        accepted(&self.node.broadcast(&tx, Broadcast::Sync).await.map_err(rpc_error)?)?;
        await_inclusion(&self.node, &tx).await?;
        Ok(started.elapsed())
    }

    /// Waits until the coin's last transfer is in a root at Ethereum's finalized block.
    pub async fn await_root(&self, coin: CoinId) -> CommandResult<BlockNumber> {
        let history = self.node.coin_history(coin).await.map_err(rpc_error)?.unwrap_or_default();
        let block = history.last().map_or(0, |(block, _)| *block);
        self.await_stored(block).await?;
        Ok(block)
    }

    /// Waits until a plasma block is stored at Ethereum's finalized block.
    pub async fn await_stored(&self, block: BlockNumber) -> CommandResult<()> {
        let deadline = Instant::now() + ROOT_MAX;
        while self.contract.last_block(At::Finalized).await.unwrap_or(0) < block {
            if Instant::now() > deadline {
                return Err(lost(format!("block {block} is not on Ethereum after {ROOT_MAX:?}")));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Opens the exit of a coin as its owner does.
    pub async fn start(&self, coin: CoinId, owner: &str) -> CommandResult<u64> {
        let (authorization, history) = (Vec::new(), Vec::new());
        let args = cli::ExitStart { coins: vec![coin], from: from(owner), authorization, history };
        let opened = exit::start(self.context, &args, &account(owner)?, &self.quiet).await?;
        opened.first().map(|(_, exit)| *exit).ok_or_else(|| lost("no exit was opened"))
    }

    /// Opens an exit that no honest program opens: of the deposit, or by a transfer and its parent
    /// (none: the deposit).
    pub async fn steal(
        &self,
        coin: CoinId,
        thief: &str,
        transfer: ExitPair,
    ) -> CommandResult<Theft> {
        let sender = self.context.sender(&account(thief)?).await?;
        let deposit_id = deposit_of(&self.contract, coin).await?.deposit_id;
        let thief = sender.address();
        let (credits, burned) = self.bonds(thief).await?;
        let exit = ExitStart { coin, deposit_id, transfer, authorization: None, hint: 0 };
        let exit = self.contract.start_exit(&sender, &exit).await.map_err(eth_error)?;
        Ok(Theft { exit, coin, thief, credits, burned })
    }

    /// Wei of bonds that an account may withdraw, and wei burned.
    async fn bonds(&self, account: Address) -> CommandResult<(U256, U256)> {
        let credits = self.contract.read(RootChain::creditsCall { account }, At::Latest).await;
        let burned = self.contract.read(RootChain::burnedCall {}, At::Latest).await;
        Ok((credits.map_err(eth_error)?, burned.map_err(eth_error)?))
    }

    /// Refutes a thief's exit, as `plasma exit challenge` does.
    pub async fn challenge(&self, theft: &Theft, challenger: &str) -> CommandResult<Challenge> {
        let (coin, exit, from) = (theft.coin, Some(theft.exit), from(challenger));
        let args = cli::ExitChallenge { coin, exit, from, history: Vec::new() };
        let key = account(challenger)?;
        let refuted = exit::challenge(self.context, &args, &key, &self.quiet).await?;
        let found = refuted.into_iter().next().map(|(_, challenge)| challenge);
        found.ok_or_else(|| lost("nothing was refuted"))
    }

    /// Lets days pass on Ethereum.
    pub async fn days(&self, days: u64) -> CommandResult<()> {
        warp(self.context, days * 86_400).await.map(drop)
    }

    pub async fn balance(&self, name: &str) -> CommandResult<U256> {
        let account = account(name)?.address();
        self.contract.ethereum.balance(account).await.map_err(eth_error)
    }

    /// The owner finalizes and withdraws; an error unless he got the coin's value since he had
    /// `before`.
    pub async fn take(&self, coin: CoinId, owner: &str, before: U256) -> CommandResult<()> {
        let key = account(owner)?;
        let sender = self.context.sender(&key).await?;
        self.contract.finalize(&sender, coin).await.map_err(eth_error)?;
        for id in exit::open_exits(self.context, coin).await? {
            exit::sweep_coin(self.context, coin, Some(id), &key).await?;
        }
        exit::withdraw(self.context, &[coin], &key).await?;
        let after = self.balance(owner).await?;
        // Gas costs far less than a hundredth of an ether here.
        if after + value() / U256::from(100) < before + value() {
            return Err(lost(format!("{owner} had {before} wei, has {after}: not paid")));
        }
        Ok(())
    }

    /// An error unless a thief's exit is closed, part of its bond burned and none of it his.
    pub async fn punished(&self, theft: &Theft) -> CommandResult<()> {
        let found = self.contract.exit(theft.coin, theft.exit, At::Latest).await;
        let found = found.map_err(eth_error)?;
        let (credits, burned) = self.bonds(theft.thief).await?;
        match found {
            Some((_, 2)) if credits == theft.credits && burned > theft.burned => Ok(()),
            other => Err(lost(format!("{credits} wei are the thief's; his exit: {other:?}"))),
        }
    }
}
