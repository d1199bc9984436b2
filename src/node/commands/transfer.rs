//! `plasma transfer`.

use std::time::{Duration, Instant};

use plasma_client::coin_files::CoinFiles;
use plasma_client::history::{History, follow};
use plasma_client::queries::CoinAnswer;
use plasma_client::rpc::{Broadcast, NodeClient, RpcError, TxResult, TxVerdict};
use plasma_client::transfer::{Permit, may_sign, sign, tx_hash};
use plasma_core::code::Code;
use plasma_core::coin::{CoinState, Deposit};
use plasma_core::signature::SigningKey;
use plasma_core::state::Params;
use plasma_core::transfer::SignedTransfer;
use plasma_core::tx::Tx;
use plasma_core::{Address, BlockNumber, CoinId};
use serde_json::json;

use crate::cli::{Transfer, TransferCommand};
use crate::commands::verify::{
    Leaving, Roots, Source, View, check, coin_files, files_error, history_error,
};
use crate::context::{Context, find_coin, parse_hash, rpc_error, unknown_coin};
use crate::output::{CommandError, CommandResult, Exit, Output};

/// How long a transfer may take into a block.
const INCLUDE_MAX: Duration = Duration::from_secs(60);
/// How long the certificate of a coin's newest block may take.
const CERTIFY_MAX: Duration = Duration::from_secs(30);
/// Between two looks at what is awaited.
const POLL: Duration = Duration::from_millis(100);

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
    let order = Order { coins: &args.coins, key: &key, to, max_block: args.max_block };
    let (tx, transfers) = sign_verified(context, &node, &order, output).await?;
    let bytes = tx.encode();
    let hash = hex::encode_upper(tx_hash(&bytes));
    let domain = context.params(&node).await?.domain();
    let digests: Vec<_> = transfers.iter().map(|t| t.transfer.digest(&domain)).collect();
    let max_block = transfers.iter().map(|t| t.transfer.max_block).max();
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
        let included = await_inclusion(&node, &bytes).await?;
        let height = included.height;
        if included.code != 0 {
            let name = Code::from_number(included.code).map_or("refused", Code::name);
            let message = format!("the transfer is in height {height}, but was refused: {name}");
            let help = "plasma coin show COIN";
            return Err(CommandError::new(Exit::Rejected, name, message, help));
        }
        let skipped: Vec<String> = (0..)
            .zip(&transfers)
            .filter(|(i, _)| !executed(&included.data, *i))
            .map(|(_, t)| t.transfer.coin.to_string())
            .collect();
        if !skipped.is_empty() {
            let coins = skipped.join(", ");
            let message = format!("the bundle is in height {height}, but not coin {coins}");
            let help = format!("plasma transfer show {hash}");
            return Err(CommandError::new(Exit::Rejected, "skipped", message, help));
        }
        data["height"] = height.into();
        text += &format!("\nincluded at height {height}");
    }
    for digest in &digests {
        text += &format!("\ntransfer {digest}");
    }
    output.result(text, data);
    Ok(())
}

/// What an owner wants sent.
pub struct Order<'a> {
    /// The coins; several go in one bundle.
    pub coins: &'a [CoinId],
    /// The owner's key.
    pub key: &'a SigningKey,
    /// The receiver.
    pub to: Address,
    /// Last plasma block in which the transfers count; default: a few blocks ahead.
    pub max_block: Option<BlockNumber>,
}

/// Signs as a sender must: everything up to now is verified, and no coin gets a second live
/// signature. What is returned was remembered durably before.
pub async fn sign_verified(
    context: &Context,
    node: &NodeClient,
    order: &Order<'_>,
    output: &Output,
) -> CommandResult<(Tx, Vec<SignedTransfer>)> {
    let mut sender = Sending::start(context, node).await?;
    if sender.newest > sender.view.stored.last_block {
        output.note(format!(
            "blocks {} to {} are not on Ethereum yet: checked against the validators' certificate",
            sender.view.stored.last_block + 1,
            sender.newest
        ));
    }
    let margin = context.config.node.max_block_margin;
    let usual = sender.newest.saturating_add(1).saturating_add(margin);
    let max_block = order.max_block.unwrap_or(usual);
    if max_block > usual {
        output.note(format!("the signature lives until plasma block {max_block}: that is long"));
    }
    let mut coins = order.coins.to_vec();
    coins.sort_unstable();
    coins.dedup();
    let (mut signed, mut new) = (Vec::new(), Vec::new());
    for coin in coins {
        let (state, last_final) = sender.verified(coin, order.key.address()).await?;
        let last = sender.files.signed(coin).map_err(files_error)?;
        match may_sign(last.as_ref(), &state, last_final, order.to, order.max_block) {
            Ok(Permit::Again(again)) => signed.push(again),
            Ok(Permit::Sign) => {
                let domain = &sender.view.domain;
                new.push(sign(&state, order.to, max_block, order.key, domain));
                signed.extend(new.last());
            }
            Err(error) => {
                let help = "send the same again, or wait";
                return Err(CommandError::no("live_signature", error, help));
            }
        }
    }
    sender.files.remember(&new).map_err(files_error)?;
    Ok((transaction(&signed), signed))
}

/// A sender's view of the chains, with the wallet's files locked.
struct Sending<'a> {
    context: &'a Context,
    node: &'a NodeClient,
    files: CoinFiles,
    view: View,
    /// Roots above Ethereum's newest, by certificate.
    certified: Roots,
    /// The newest block whose root is known.
    newest: BlockNumber,
    deposits: Vec<Deposit>,
}

impl<'a> Sending<'a> {
    async fn start(context: &'a Context, node: &'a NodeClient) -> CommandResult<Self> {
        let view = View::read(context).await?;
        let params = context.params(node).await?;
        if params.domain() != view.domain {
            let found = params.chain_id;
            let message = format!("the node's chain id is {found}, Ethereum's is another");
            return Err(CommandError::usage(message, "correct [node] rpc or [ethereum] rpc"));
        }
        let files = coin_files(context, &view)?;
        let (certified, newest) = (Roots::new(), 0);
        let mut sending =
            Self { context, node, files, view, certified, newest, deposits: Vec::new() };
        sending.look().await?;
        Ok(sending)
    }

    async fn look(&mut self) -> CommandResult<()> {
        self.certified = self.view.certified(self.node).await?;
        let last = self.certified.last_key_value().map(|(number, _)| *number);
        self.newest = last.unwrap_or(self.view.stored.last_block);
        Ok(())
    }

    async fn deposit(&mut self, coin: CoinId) -> CommandResult<Deposit> {
        if let Some(known) = self.deposits.iter().find(|deposit| deposit.contains(coin)) {
            return Ok(*known);
        }
        let deposit = self.view.deposit(coin).await?;
        self.deposits.push(deposit);
        Ok(deposit)
    }

    /// The coin's state after every block whose root is known, and the last final one of those;
    /// refused unless `owner` owns it and the node agrees that it is the newest. Waits for the
    /// certificate of the block in which the owner received it.
    async fn verified(
        &mut self,
        coin: CoinId,
        owner: Address,
    ) -> CommandResult<(CoinState, BlockNumber)> {
        let deposit = self.deposit(coin).await?;
        let refuse = |code: Code, what: &str| {
            let message = format!("coin {coin} {what}");
            Err(CommandError::new(Exit::Rejected, code.name(), message, "plasma coin show COIN"))
        };
        match self.view.leaving(&deposit, coin).await? {
            Some(Leaving::Exiting) => return refuse(Code::Frozen, "is exiting on Ethereum"),
            Some(Leaving::Gone) => return refuse(Code::Gone, "has left Ethereum's contract"),
            None => {}
        }
        let deadline = Instant::now() + CERTIFY_MAX;
        loop {
            let history = self.history(coin, deposit).await?;
            let state = history.0.state();
            let answer = self.node.coin(coin).await.map_err(rpc_error)?;
            let told = match answer.ok_or_else(|| unknown_coin(coin))? {
                CoinAnswer::Record(record) => record.state(coin),
                CoinAnswer::Unmoved(deposit) => deposit.state(coin, &self.view.domain),
            };
            if told.owner != owner {
                return refuse(Code::NotOwner, &format!("is {}'s, says the node", told.owner));
            }
            if told == state {
                return Ok((state, history.1));
            }
            if told.block <= history.0.checked() || Instant::now() > deadline {
                let message = format!(
                    "coin {coin} is verified up to block {} only; the node says that it moved in \
                     block {}",
                    history.0.checked(),
                    told.block
                );
                return Err(CommandError::no("not_verified", message, "wait, or ask another node"));
            }
            tokio::time::sleep(POLL).await;
            self.view = View::read(self.context).await?;
            self.look().await?;
        }
    }

    /// The history up to the newest known root, with the last final block of it.
    async fn history(
        &self,
        coin: CoinId,
        deposit: Deposit,
    ) -> CommandResult<(History, BlockNumber)> {
        let mut source = Source { file: None, node: Some(self.node) };
        let checked = check(&self.view, &self.files, coin, deposit, &mut source).await?;
        if let Some(error) = checked.latest_error {
            return Err(error);
        }
        let mut now = checked.latest;
        let roots = |number| self.certified.get(&number).copied();
        let followed = follow(self.node, &mut now, self.newest, roots, |_| ()).await;
        followed.and_then(|()| now.refuse_garbage()).map_err(history_error)?;
        Ok((now, checked.last_final.checked()))
    }
}

fn transaction(signed: &[SignedTransfer]) -> Tx {
    match signed {
        [one] => Tx::Transfer(one.wire()),
        many => Tx::Bundle(many.iter().map(SignedTransfer::wire).collect()),
    }
}

/// Signs the transfers of `coins` over whatever the node says, as no honest owner does: one
/// transaction, a bundle if there are several.
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
    Ok((transaction(&signed), signed))
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

/// Whether member `i` of a bundle was executed, by the result's data (formats.md): empty if all
/// were. The node's bytes: a bitmap that is too short says "skipped".
fn executed(data: &[u8], i: usize) -> bool {
    data.is_empty() || data.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1)
}

/// Waits until a transaction is in a block; returns its result.
pub async fn await_inclusion(node: &NodeClient, tx: &[u8]) -> CommandResult<TxResult> {
    let hash = tx_hash(tx);
    let deadline = Instant::now() + INCLUDE_MAX;
    while Instant::now() < deadline {
        if let Some(result) = node.tx(&hash).await.map_err(rpc_error)? {
            return Ok(result);
        }
        tokio::time::sleep(POLL).await;
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
    let bytes = parse_hash(hash)
        .ok_or_else(|| CommandError::usage("a hash has 64 hex digits", "plasma transfer --help"))?;
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
    let executed = |i: usize| executed(&result.data, i);
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
