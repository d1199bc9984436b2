//! What the node and the devnet need of Ethereum, for code without a runtime of its own.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, RwLock};

use plasma_abci::app::App;
use plasma_client::wallet::devnet_key;
use plasma_core::event_window::EventWindow;
use plasma_core::validators::ValidatorSet;
use plasma_core::{Address, B256};
use plasma_rootchain::contract::{
    ExitParams, TestERC20, TestERC721, TestERC1155, deploy, deploy_code,
};
use plasma_rootchain::ethereum::{At, EthError, Ethereum, Sender};
use plasma_rootchain::follower::{Follower, Source};
use serde_json::json;

use crate::config::Config;
use crate::home::Home;
use crate::output::{CommandError, CommandResult, Exit};
use crate::time::now_s;

/// Exit parameters of a devnet: those of exit-game.md.
pub const DEVNET_EXIT: ExitParams = ExitParams {
    exit_period_s: 14 * 86_400,
    hold_period_s: 7 * 86_400,
    bond: 100_000_000_000_000_000,
    burn_bps: 5_000,
};

/// Runs a future to its end on a runtime of its own.
pub fn block_on<T>(future: impl Future<Output = T>) -> CommandResult<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::failure("runtime", error, ""))?;
    Ok(runtime.block_on(future))
}

/// An Ethereum error as a command's.
pub fn eth_error(error: EthError) -> CommandError {
    let (exit, code, help) = match &error {
        EthError::Unreachable { .. } => {
            (Exit::Unreachable, "ethereum_unreachable", "is it up? plasma devnet up")
        }
        // Not one of our contract's: a token's, by its name (ERC-6093) or as revert data in hex.
        EthError::Reverted(data) if data.starts_with("0x") || data.starts_with("ERC") => {
            (Exit::Rejected, "reverted", "check the token: address, id, balance")
        }
        EthError::Reverted(_) => (Exit::Rejected, "reverted", "plasma exit list COIN"),
        EthError::Url(_) => (Exit::Usage, "url", "correct [ethereum] rpc in config/plasma.toml"),
        _ => (Exit::Failure, "ethereum", "plasma doctor"),
    };
    CommandError::new(exit, code, error, help)
}

/// Whether an endpoint answers.
pub fn answers(url: &str) -> bool {
    let ask = async { Ethereum::new(url)?.chain_id().await };
    matches!(block_on(ask), Ok(Ok(_)))
}

/// Lets anvil mine from where its state ends. It would go on at the machine's time, before its last
/// block's after `devnet warp`, and every open exit would last longer.
pub fn start_mining(url: &str, block_time_s: u64) -> CommandResult<()> {
    let start = async {
        let ethereum = Ethereum::new(url)?;
        let last = ethereum.head(At::Latest).await?.map_or(0, |head| head.timestamp);
        let ahead = last.saturating_sub(now_s());
        ethereum.anvil("evm_increaseTime", vec![json!(ahead)]).await?;
        ethereum.anvil("evm_setIntervalMining", vec![json!(block_time_s)]).await
    };
    block_on(start)?.map(drop).map_err(eth_error)
}

/// What was deployed on a devnet.
pub struct Deployed {
    /// RootChain.
    pub root_chain: Address,
    /// Its block.
    pub block: u64,
    /// Test tokens by kind.
    pub tokens: BTreeMap<String, String>,
}

/// Deploys RootChain and a token of each kind, as the devnet's operator.
pub fn deploy_devnet(url: &str, set: &ValidatorSet) -> CommandResult<Deployed> {
    let deployment = async {
        let key = devnet_key("operator").ok_or(EthError::Answer("no operator".into()))?;
        let sender = Sender::new(Ethereum::new(url)?, &key).await?;
        let (root_chain, block) = deploy(&sender, set, DEVNET_EXIT).await?;
        let mut tokens = BTreeMap::new();
        for (name, code) in [
            ("erc20", &TestERC20::BYTECODE),
            ("erc721", &TestERC721::BYTECODE),
            ("erc1155", &TestERC1155::BYTECODE),
        ] {
            let (address, _) = deploy_code(&sender, code, &[]).await?;
            tokens.insert(name.to_owned(), address.to_string());
        }
        Ok(Deployed { root_chain, block, tokens })
    };
    block_on(deployment)?.map_err(eth_error)
}

/// The follower on a thread of its own; it ends with the process.
pub fn spawn_follower(
    home: &Home,
    config: &Config,
    events: Arc<RwLock<Arc<EventWindow>>>,
    app: Arc<App>,
) -> CommandResult<()> {
    let root_chain = parse_address(&config.ethereum.root_chain)?;
    let source = Source {
        urls: config.ethereum.rpc.clone(),
        root_chain,
        deployed_at: config.ethereum.deployed_at,
        cursor_file: home.data().join("follower"),
    };
    let cursor = move || {
        app.committed().map_or((0, B256::ZERO), |view| (view.tip.event_count, view.tip.event_hash))
    };
    let thread = std::thread::Builder::new().name("follower".into());
    let run = move || {
        let follower = Follower::new(source, events, cursor());
        if let Err(error) = block_on(follower.run(cursor)) {
            tracing::error!(%error, "follower");
        }
    };
    thread.spawn(run).map_err(|error| CommandError::failure("follower", error, ""))?;
    Ok(())
}

/// The contract's address in the configuration.
pub fn parse_address(text: &str) -> CommandResult<Address> {
    text.parse().map_err(|_| {
        let message = format!("[ethereum] root_chain {text:?} is no address");
        CommandError::usage(message, "set it in config/plasma.toml, or start plasma devnet up")
    })
}
