//! The command line: nouns, then verbs.

pub mod store;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::DEFAULT_STORE;
use crate::time::parse_duration_s;

/// A payment child chain for Ethereum that nobody has to trust.
#[derive(Debug, Parser)]
#[command(name = "plasma", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// Directory of configuration, keys and data.
    #[arg(long, global = true, env = "PLASMA_HOME", value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// Print nothing but the result.
    #[arg(long, global = true)]
    pub quiet: bool,
    /// Which log lines go to stderr, e.g. "info,plasma_abci=debug".
    #[arg(long, global = true, env = "PLASMA_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// A duration of at most ten years: the contract keeps times in 40 bits.
fn parse_warp(text: &str) -> Result<u64, String> {
    let seconds = parse_duration_s(text)?;
    if seconds > 3_650 * 86_400 { Err(format!("{text} is above 3650d")) } else { Ok(seconds) }
}

/// Nouns.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// A whole network on this machine.
    #[command(subcommand)]
    Devnet(Devnet),
    /// Play a scenario on the devnet, step by step; exit code 0 only if the honest owner is paid.
    #[command(after_help = "Examples: plasma demo happy, plasma demo double-spend\n\
        happy and spent-coin play on the running devnet, the others start a network of their own.")]
    Demo {
        /// Which one.
        name: DemoName,
    },
    /// List what is missing and the command that installs it.
    Doctor,
    /// Make a node's home: keys and configuration.
    #[command(after_help = "Example: plasma --home ~/node init --genesis genesis.json")]
    Init {
        /// The network's genesis file.
        #[arg(long, value_name = "FILE")]
        genesis: Option<PathBuf>,
    },
    /// Run a node: the application, the follower and CometBFT.
    Start,
    /// Bring certified roots to Ethereum.
    Relayer,
    /// Keys.
    #[command(subcommand)]
    Wallet(Wallet),
    /// Deposit on Ethereum; prints the ids of the new coins.
    #[command(after_help = "Example: plasma deposit --from alice --value 1ether --count 10")]
    Deposit(Deposit),
    /// Coins.
    #[command(subcommand)]
    Coin(Coin),
    /// Move a coin, or show a transfer.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Example: plasma transfer 1 --from alice --to bob"
    )]
    Transfer(Transfer),
    /// Plasma blocks.
    #[command(subcommand)]
    Block(Block),
    /// Take coins back to Ethereum.
    #[command(subcommand)]
    Exit(Exit),
    /// Guard coins: challenge exits, start, finalize and sweep the owners'; trusts no node.
    #[command(after_help = WATCH_HELP)]
    Watch(Watch),
    /// Proofs.
    #[command(subcommand)]
    Proof(Proof),
    /// The state store of a node that does not run; read-only but for prune and import.
    #[command(after_help = "Example: plasma --home node0 store info")]
    Store(store::Store),
}

const WATCH_HELP: &str = "\
Examples: plasma watch --from alice
          plasma watch --payer tower --owner 0x... --authorizations consents/ --metrics \
                          127.0.0.1:26680
Everything it acts on is verified against Ethereum. Look at least once per exit period (14 days),
and once per hold period (7 days) while an exit of a coin is open: it does while it runs.";

/// `plasma watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// Key of an owner, in the keystore or a devnet account; may be repeated. The first one pays.
    #[arg(long, value_name = "KEY")]
    pub from: Vec<String>,
    /// File with the password of these keys.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Key that pays for transactions and bonds; default: the first owner's.
    #[arg(long, value_name = "KEY")]
    pub payer: Option<String>,
    /// An owner without a key here: address, key or devnet account; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    pub owner: Vec<String>,
    /// A coin to guard whoever owns it; may be repeated.
    #[arg(long)]
    pub coin: Vec<u64>,
    /// Directory with owners' consents (plasma exit authorize), *.json.
    #[arg(long, value_name = "DIR")]
    pub authorizations: Option<PathBuf>,
    /// Pay won coins and bonds out.
    #[arg(long)]
    pub withdraw: bool,
    /// Say what would be sent, and send nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Serve metrics at this loopback address, e.g. 127.0.0.1:26680.
    #[arg(long, value_name = "IP:PORT")]
    pub metrics: Option<std::net::SocketAddr>,
}

/// `plasma devnet`.
#[derive(Debug, Subcommand)]
pub enum Devnet {
    /// Start anvil, the contracts, validators and the relayer; ^C stops all of it.
    #[command(after_help = "Example: plasma devnet up --validators 4")]
    Up(DevnetUp),
    /// Stop a running devnet; its state is kept.
    Down {
        /// Directory of the devnet; default: the home.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// List processes, URLs, accounts and addresses.
    Status {
        /// Directory of the devnet; default: the home.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Let time pass on Ethereum.
    #[command(after_help = "Example: plasma devnet warp 15d")]
    Warp {
        /// How long, e.g. 15d, 12h, 30m, 45s; at most ten years.
        #[arg(value_parser = parse_warp)]
        time: u64,
    },
    /// Delete a devnet that is down.
    Reset {
        /// Directory of the devnet; default: the home.
        #[arg(long)]
        dir: Option<PathBuf>,
        /// Really.
        #[arg(long)]
        yes: bool,
    },
}

/// `plasma devnet up`.
#[derive(Debug, Args)]
pub struct DevnetUp {
    /// Number of validators.
    #[arg(long, default_value_t = 4)]
    pub validators: usize,
    /// Directory of the devnet; default: the home.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Any free ports instead of 26656, 26657 ... and 8545.
    #[arg(long)]
    pub free_ports: bool,
    /// Heights that a plasma block stays open.
    #[arg(long)]
    pub max_heights: Option<u64>,
    /// Scheme of the nodes' state store.
    #[arg(long, default_value = DEFAULT_STORE, value_parser = plasma_store::SCHEMES)]
    pub store: String,
    /// Record CometBFT's calls in each node's data/calls.log.
    #[arg(long)]
    pub record_calls: bool,
    /// Play this demo when the network is up.
    #[arg(long)]
    pub demo: Option<DemoName>,
    /// Stop after the demo, with its exit code.
    #[arg(long, requires = "demo")]
    pub once: bool,
}

/// Demos.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DemoName {
    /// Deposit, transfer, root on Ethereum, exit, payout.
    Happy,
    /// A sender exits the coin that she has sent: refuted by the spend.
    SpentCoin,
    /// The operator includes a second transfer of the same state: refuted by the first.
    DoubleSpend,
    /// The operator puts garbage in the coin's place: the older, honest exit wins.
    InvalidHistory,
    /// The operator withholds a block and reveals it late: refuted, and the hold gives time.
    WithheldBlock,
}

/// `plasma wallet`.
#[derive(Debug, Subcommand)]
pub enum Wallet {
    /// Make a key.
    New {
        /// Its name.
        name: String,
        /// File with the password; only its first line counts.
        #[arg(long)]
        password_file: PathBuf,
    },
    /// Encrypt a key that you have: 64 hex digits in a file.
    Import {
        /// Its name.
        name: String,
        /// File with the key.
        #[arg(long)]
        key_file: PathBuf,
        /// File with the password.
        #[arg(long)]
        password_file: PathBuf,
    },
    /// List keys.
    List,
}

/// Whose key signs.
#[derive(Debug, Clone, Args)]
pub struct From {
    /// Name of a key in the keystore, or of a devnet account.
    #[arg(long)]
    pub from: String,
    /// File with the key's password.
    #[arg(long)]
    pub password_file: Option<PathBuf>,
}

/// `plasma deposit`.
#[derive(Debug, Args)]
pub struct Deposit {
    /// Who deposits and owns the coins.
    #[command(flatten)]
    pub from: From,
    /// Value of each coin: wei, `1.5ether`, `3gwei`, or a token's smallest units.
    #[arg(long)]
    pub value: Option<String>,
    /// How many coins, at most 1,000.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub count: u16,
    /// Asset.
    #[arg(long, value_enum, default_value_t = AssetName::Eth)]
    pub asset: AssetName,
    /// Token contract; on the devnet its test token of that kind.
    #[arg(long)]
    pub token: Option<String>,
    /// Token id of an NFT or ERC-1155.
    #[arg(long)]
    pub id: Option<String>,
    /// Mint the devnet's test token first.
    #[arg(long)]
    pub mint: bool,
    /// Wait until the child chain has the coins.
    #[arg(long)]
    pub wait: bool,
}

/// Kinds of assets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AssetName {
    /// Ether.
    Eth,
    /// An ERC-20 token.
    Erc20,
    /// An NFT.
    Erc721,
    /// Units of an ERC-1155 id.
    Erc1155,
}

/// `plasma coin`.
#[derive(Debug, Subcommand)]
pub enum Coin {
    /// Owner, state and value of a coin, as the node says.
    Show {
        /// The coin.
        coin: u64,
    },
    /// Coins of an account, as the node says; without one, the coins whose histories are kept.
    List {
        /// Address, key or devnet account.
        owner: Option<String>,
    },
    /// A coin's transfers.
    #[command(after_help = "Example: plasma coin history 7 --verify coin-7.history")]
    History {
        /// The coin.
        coin: u64,
        /// Check every block against the roots on Ethereum.
        #[arg(long)]
        verify: bool,
        /// A portable history to check; the node is asked for blocks after its end.
        #[arg(requires = "verify")]
        file: Option<PathBuf>,
        /// Ask no node: the file, or what is kept, must reach to Ethereum's finalized block.
        #[arg(long, requires = "verify")]
        no_node: bool,
    },
    /// Write a coin's portable history, verified, for its receiver.
    #[command(after_help = "Example: plasma coin export 7 coin-7.history")]
    Export {
        /// The coin.
        coin: u64,
        /// Where to; default: coin-COIN.history.
        file: Option<PathBuf>,
    },
    /// Verify a portable history against Ethereum and keep it.
    #[command(after_help = "Example: plasma coin import coin-7.history")]
    Import {
        /// The file.
        file: PathBuf,
        /// Ask no node: the file must reach to Ethereum's finalized block.
        #[arg(long)]
        no_node: bool,
    },
}

/// `plasma transfer`.
#[derive(Debug, Args)]
pub struct Transfer {
    /// Show a transfer instead.
    #[command(subcommand)]
    pub command: Option<TransferCommand>,
    /// The coins; several go in one bundle.
    #[arg(required = true)]
    pub coins: Vec<u64>,
    /// The owner.
    #[arg(long, required = true)]
    pub from: Option<String>,
    /// File with the key's password.
    #[arg(long)]
    pub password_file: Option<PathBuf>,
    /// The receiver: address, key or devnet account.
    #[arg(long, required = true)]
    pub to: Option<String>,
    /// Last plasma block in which the transfer counts; default: a few blocks ahead.
    #[arg(long)]
    pub max_block: Option<u64>,
    /// Print the bytes for curl, and send nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Return once CheckTx has answered; default: wait for the block.
    #[arg(long)]
    pub no_wait: bool,
}

/// `plasma transfer show`.
#[derive(Debug, Subcommand)]
pub enum TransferCommand {
    /// Show a transfer by CometBFT's hash of its transaction, or by its own hash and coin.
    Show {
        /// 64 hex digits.
        hash: String,
        /// The coin, where the hash is the transfer's own.
        #[arg(long)]
        coin: Option<u64>,
    },
}

/// `plasma block`.
#[derive(Debug, Subcommand)]
pub enum Block {
    /// Root, certificate and state of a plasma block.
    Show {
        /// Its number; default: the newest.
        number: Option<u64>,
    },
}

/// `plasma exit`.
#[derive(Debug, Subcommand)]
pub enum Exit {
    /// Open the exits of coins; each puts up the bond.
    #[command(after_help = "Example: plasma exit start 1 --from bob\n\
        Without a node: plasma exit start 1 --from bob --history coin1.history\n\
        For its owner:  plasma exit start 1 --from dave --authorization coin1.json")]
    Start(ExitStart),
    /// Refute exits of a coin with what the node, history files and Ethereum show.
    #[command(after_help = "Example: plasma exit challenge 1 --from bob\n\
        Exit code 3: nothing that is known refutes an exit of the coin.")]
    Challenge(ExitChallenge),
    /// Open exits of a coin.
    #[command(after_help = "Example: plasma exit list 1")]
    List {
        /// The coin.
        coin: u64,
    },
    /// All of one exit: age, period, hold, and whether it can be refuted.
    #[command(after_help = "Example: plasma exit show 1 7")]
    Show(ExitShow),
    /// Give coins to their oldest exits, once period and hold are over.
    #[command(after_help = "Example: plasma exit finalize 1 2 3 --from bob")]
    Finalize {
        /// The coins; of several, those that cannot be finalized yet are skipped.
        #[arg(required = true)]
        coins: Vec<u64>,
        /// Who pays for the transaction.
        #[command(flatten)]
        from: From,
    },
    /// Close exits of a finalized coin that did not win.
    #[command(after_help = "Example: plasma exit sweep 1 --from bob")]
    Sweep(ExitId),
    /// Take the only exit of a coin back; the burned share of its bond is lost.
    #[command(after_help = "Example: plasma exit cancel 1 --from bob")]
    Cancel(ExitId),
    /// Pay out finalized coins and the bonds.
    #[command(after_help = "Example: plasma exit withdraw 1 2 3 --from bob")]
    Withdraw {
        /// The coins, all of them won by the same account; none: only bonds and rewards.
        coins: Vec<u64>,
        /// The winner; or who put up a bond, or challenged.
        #[command(flatten)]
        from: From,
    },
    /// Sign the consent to a coin's exit by somebody else, which can only pay the owner.
    #[command(
        after_help = "Example: plasma exit authorize 1 --from bob --not-after 90d > coin1.json"
    )]
    Authorize(ExitAuthorize),
}

/// `plasma exit start`.
#[derive(Debug, Clone, Args)]
pub struct ExitStart {
    /// The coins.
    #[arg(required = true)]
    pub coins: Vec<u64>,
    /// The owner, or whom he has authorised.
    #[command(flatten)]
    pub from: From,
    /// The owner's consent (plasma exit authorize), if somebody else signs; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub authorization: Vec<PathBuf>,
    /// History file of a coin (plasma coin export); may be repeated.
    #[arg(long, value_name = "FILE")]
    pub history: Vec<PathBuf>,
}

/// `plasma exit challenge`.
#[derive(Debug, Clone, Args)]
pub struct ExitChallenge {
    /// The coin.
    pub coin: u64,
    /// The exit; default: every one that can be refuted.
    pub exit: Option<u64>,
    /// Who pays for the transaction and gets half of the bond.
    #[command(flatten)]
    pub from: From,
    /// History file of the coin (plasma coin export).
    #[arg(long, value_name = "FILE")]
    pub history: Vec<PathBuf>,
}

/// `plasma exit show`.
#[derive(Debug, Clone, Args)]
pub struct ExitShow {
    /// The coin.
    pub coin: u64,
    /// The exit.
    pub exit: u64,
    /// History file of the coin (plasma coin export).
    #[arg(long, value_name = "FILE")]
    pub history: Vec<PathBuf>,
}

/// `plasma exit sweep`, `plasma exit cancel`.
#[derive(Debug, Clone, Args)]
pub struct ExitId {
    /// The coin.
    pub coin: u64,
    /// The exit; may be left out where only one answer is possible.
    pub exit: Option<u64>,
    /// Who signs.
    #[command(flatten)]
    pub from: From,
}

/// `plasma exit authorize`.
#[derive(Debug, Clone, Args)]
pub struct ExitAuthorize {
    /// The coin.
    pub coin: u64,
    /// Its owner.
    #[command(flatten)]
    pub from: From,
    /// Until when: a time from now such as 90d, or Unix seconds.
    #[arg(long, value_name = "TIME")]
    pub not_after: String,
    /// History file of the coin (plasma coin export).
    #[arg(long, value_name = "FILE")]
    pub history: Vec<PathBuf>,
}

/// `plasma proof`.
#[derive(Debug, Subcommand)]
pub enum Proof {
    /// Check the JSON answer of `abci_query?...&prove=true` against the node's next header.
    #[command(after_help = "Example: curl -s 'localhost:26657/abci_query?path=\"/coin/1\"\
                            &prove=true' | plasma proof verify -")]
    Verify {
        /// File, or - for standard input.
        file: PathBuf,
        /// App hash to check against, hex; default: asked from the node.
        #[arg(long)]
        app_hash: Option<String>,
    },
}
