//! The contracts, bound from the committed ABI, and what the commands do with them.

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::rpc::types::{TransactionReceipt, TransactionRequest};
use alloy::sol_types::{GenericRevertReason, SolCall, SolEvent, SolInterface, SolValue};
use plasma_client::challenge::{Challenge, Inclusion, OpenExit};
use plasma_core::coin::{Deposit, asset};
use plasma_core::signature::Signature;
use plasma_core::smt::Proof;
use plasma_core::transfer::{SignedTransfer, Transfer};
use plasma_core::validators::ValidatorSet;
use plasma_core::{BlockNumber, CoinId};

use crate::ethereum::{At, EthError, Ethereum, Sender};

#[allow(missing_docs, clippy::too_many_arguments)]
mod abi {
    alloy::sol!(
        #[sol(all_derives)]
        RootChain,
        "../../contracts/abi/RootChain.json"
    );
    alloy::sol!(
        #[sol(all_derives)]
        TestERC20,
        "../../contracts/abi/TestERC20.json"
    );
    alloy::sol!(
        #[sol(all_derives)]
        TestERC721,
        "../../contracts/abi/TestERC721.json"
    );
    alloy::sol!(
        #[sol(all_derives)]
        TestERC1155,
        "../../contracts/abi/TestERC1155.json"
    );
}

pub use abi::{IRootChain, RootChain, TestERC20, TestERC721, TestERC1155};

/// Constructor parameters of RootChain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitParams {
    /// Seconds that an exit stays open.
    pub exit_period_s: u64,
    /// Seconds that a coin is held after its oldest exit was refuted.
    pub hold_period_s: u64,
    /// Wei that an exit puts up.
    pub bond: u128,
    /// Share of a lost bond that is burned, in 1/10,000.
    pub burn_bps: u16,
}

/// Exits that one transaction opens: as many of moved coins as a transaction's gas allows.
const STARTS_MAX: usize = 64;
/// Coins that one transaction finalizes or pays out.
const COINS_MAX: usize = 100;

fn included(shown: &Inclusion) -> IRootChain::Included {
    let t = &shown.transfer.transfer;
    IRootChain::Included {
        blockNumber: shown.block,
        transfer: IRootChain::Transfer {
            coin: t.coin,
            prevBlock: t.prev_block,
            prevHash: t.prev_hash,
            newOwner: t.new_owner,
            maxBlock: t.max_block,
        },
        signature: Bytes::copy_from_slice(&shown.transfer.signature.0),
        proof: shown.proof.encode().into(),
    }
}

/// No transfer: as the parent it is the deposit, as the exiting one the exit of the deposit.
fn nothing() -> IRootChain::Included {
    IRootChain::Included {
        blockNumber: 0,
        transfer: IRootChain::Transfer {
            coin: 0,
            prevBlock: 0,
            prevHash: B256::ZERO,
            newOwner: Address::ZERO,
            maxBlock: 0,
        },
        signature: Bytes::new(),
        proof: Bytes::new(),
    }
}

/// What somebody showed on Ethereum. Unchecked: the block may be reorganised away, and a parent
/// is shown with any signature, or none.
pub fn shown_in(evidence: &RootChain::Evidence) -> Option<Inclusion> {
    let t = &evidence.transfer;
    let transfer = Transfer {
        coin: t.coin,
        prev_block: t.prevBlock,
        prev_hash: t.prevHash,
        new_owner: t.newOwner,
        max_block: t.maxBlock,
    };
    let signature = <[u8; 64]>::try_from(evidence.signature.as_ref());
    let signature = signature.map_or(Signature::ZERO, Signature);
    let proof = Proof::decode(&evidence.proof).ok()?;
    let transfer = SignedTransfer { transfer, signature };
    Some(Inclusion { block: evidence.blockNumber, transfer, proof })
}

/// An owner's consent that somebody else starts the exit of his state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    /// Last second (Unix) in which it counts.
    pub not_after: u64,
    /// The owner's signature over `plasma_core::exit::authorization_digest`.
    pub signature: Signature,
}

fn authorization(auth: Option<&Authorization>) -> IRootChain::Authorization {
    match auth {
        None => IRootChain::Authorization { notAfter: 0, signature: Bytes::new() },
        Some(auth) => IRootChain::Authorization {
            notAfter: auth.not_after,
            signature: Bytes::copy_from_slice(&auth.signature.0),
        },
    }
}

/// The exit of one state: what `startExit` and `startDepositExit` take.
#[derive(Debug, Clone)]
pub struct ExitStart {
    /// The coin.
    pub coin: CoinId,
    /// Its deposit.
    pub deposit_id: u64,
    /// The exiting transfer and its parent (none: the deposit); none for the deposit itself.
    pub transfer: Option<(Option<Inclusion>, Inclusion)>,
    /// Consent of the beneficiary, if the sender is somebody else.
    pub authorization: Option<Authorization>,
    /// See `plasma_client::challenge::hint`.
    pub hint: u64,
}

fn request(exit: &ExitStart) -> IRootChain::ExitRequest {
    let (parent, transfer) = match &exit.transfer {
        None => (None, None),
        Some((parent, transfer)) => (parent.as_ref(), Some(transfer)),
    };
    IRootChain::ExitRequest {
        coin: exit.coin,
        depositId: exit.deposit_id,
        parent: parent.map_or_else(nothing, included),
        transfer: transfer.map_or_else(nothing, included),
        auth: authorization(exit.authorization.as_ref()),
        hint: exit.hint,
    }
}

impl From<&IRootChain::OpenExit> for OpenExit {
    fn from(open: &IRootChain::OpenExit) -> Self {
        let exit = &open.data;
        Self {
            id: open.exitId,
            parent_block: exit.parentBlock,
            parent_hash: exit.parentHash,
            parent_owner: exit.parentOwner,
            block: exit.blockNumber,
            state_hash: exit.transferHash,
            beneficiary: exit.beneficiary,
            payer: exit.payer,
            bond: exit.bond.to(),
            opened_at: exit.openedAt.to(),
        }
    }
}

/// The typed error in revert data, by name: the contract's or a token's (ERC-6093); else Solidity's
/// reason, else the data in hex.
pub fn error_name(data: &[u8]) -> String {
    let ours = RootChain::RootChainErrors::abi_decode(data).map(|error| format!("{error:?}"));
    let named = ours
        .or_else(|_| TestERC20::TestERC20Errors::abi_decode(data).map(|e| format!("{e:?}")))
        .or_else(|_| TestERC721::TestERC721Errors::abi_decode(data).map(|e| format!("{e:?}")))
        .or_else(|_| TestERC1155::TestERC1155Errors::abi_decode(data).map(|e| format!("{e:?}")));
    if let Ok(text) = named {
        return text.split('(').next().unwrap_or_default().to_owned();
    }
    match GenericRevertReason::decode(data) {
        Some(GenericRevertReason::ContractError(reason)) => reason.to_string(),
        _ => alloy::primitives::hex::encode_prefixed(data),
    }
}

/// A coin's state in the contract.
#[derive(Debug, Clone)]
pub struct OnChainCoin {
    /// 0 active, 1 exited, 2 withdrawn.
    pub status: u8,
    /// No finalization before this time (Unix seconds).
    pub hold_until: u64,
    /// Open exits, oldest first.
    pub open: Vec<OpenExit>,
}

/// The contract at an address.
#[derive(Debug, Clone)]
pub struct RootChainContract {
    /// Ethereum.
    pub ethereum: Ethereum,
    /// The contract's address.
    pub address: Address,
}

/// What `submitBlocks` takes.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Number of the first root.
    pub first: BlockNumber,
    /// Consecutive roots.
    pub roots: Vec<B256>,
    /// The set, as hashed.
    pub set: Vec<u8>,
    /// Certificate of the last root.
    pub certificate: plasma_core::certificate::Certificate,
}

impl RootChainContract {
    /// Reads a view function.
    pub async fn read<C: SolCall>(&self, call: C, at: At) -> Result<C::Return, EthError> {
        self.ethereum.read(self.address, call, at).await
    }

    /// A transaction that calls a function.
    pub fn transaction(&self, call: impl SolCall, value: U256) -> TransactionRequest {
        TransactionRequest::default()
            .to(self.address)
            .value(value)
            .input(Bytes::from(call.abi_encode()).into())
    }

    /// Number of the last stored plasma block.
    pub async fn last_block(&self, at: At) -> Result<BlockNumber, EthError> {
        self.read(RootChain::lastBlockCall {}, at).await
    }

    /// Root of a plasma block; none if it is not stored.
    pub async fn root(&self, number: BlockNumber, at: At) -> Result<Option<B256>, EthError> {
        let root = self.read(RootChain::rootsCall { blockNumber: number }, at).await?;
        Ok((root != B256::ZERO).then_some(root))
    }

    /// Length and hash of the event queue.
    pub async fn queue(&self, at: At) -> Result<(u64, B256), EthError> {
        let count = self.read(RootChain::eventCountCall {}, at).await?;
        Ok((count, self.read(RootChain::eventHashCall {}, at).await?))
    }

    /// A deposit record; none if there is no such deposit.
    pub async fn deposit(&self, id: u64, at: At) -> Result<Option<Deposit>, EthError> {
        let d = self.read(RootChain::depositsCall { depositId: id }, at).await?;
        Ok((d.count > 0).then_some(Deposit {
            deposit_id: id,
            first_coin: d.firstCoin,
            count: d.count,
            owner: d.owner,
            asset_kind: d.assetKind,
            token: d.token,
            token_id: d.tokenId,
            value: d.value,
            deposit_block: d.depositBlock,
        }))
    }

    /// The deposit that created a coin, by binary search over the records.
    pub async fn deposit_of(&self, coin: CoinId, at: At) -> Result<Option<Deposit>, EthError> {
        let (mut low, mut high) = (1, self.read(RootChain::lastDepositCall {}, at).await?);
        while low <= high && coin > 0 {
            let middle = low + (high - low) / 2;
            let Some(deposit) = self.deposit(middle, at).await? else { return Ok(None) };
            if deposit.contains(coin) {
                return Ok(Some(deposit));
            }
            if deposit.first_coin > coin {
                high = middle - 1;
            } else {
                low = middle + 1;
            }
        }
        Ok(None)
    }

    /// Status, hold and open exits of a coin.
    pub async fn coin(&self, coin: CoinId, id: u64, at: At) -> Result<OnChainCoin, EthError> {
        let state = self.read(RootChain::coinStateCall { coin, depositId: id }, at).await?;
        let open = state.open.iter().map(OpenExit::from).collect();
        Ok(OnChainCoin { status: state.status, hold_until: state.holdUntil, open })
    }

    /// The bond of an exit, in wei.
    pub async fn bond(&self) -> Result<U256, EthError> {
        let bond = self.read(RootChain::bondCall {}, At::Latest).await?;
        Ok(U256::from(bond))
    }

    /// An exit of a coin, open or not, and its state: 1 open, 2 closed, 3 won. None if the coin
    /// has no such exit.
    pub async fn exit(
        &self,
        coin: CoinId,
        id: u64,
        at: At,
    ) -> Result<Option<(OpenExit, u8)>, EthError> {
        let data = self.read(RootChain::exitsCall { coin, exitId: id }, at).await?;
        let state = data.state;
        let exit = OpenExit::from(&IRootChain::OpenExit { exitId: id, data });
        Ok((state > 0).then_some((exit, state)))
    }

    /// Seconds that an exit stays open.
    pub async fn exit_period(&self) -> Result<u64, EthError> {
        self.read(RootChain::exitPeriodCall {}, At::Latest).await
    }

    /// What anybody has shown of a coin on Ethereum since its block `from`; see [`shown_in`].
    pub async fn evidence(&self, coin: CoinId, from: u64) -> Result<Vec<Inclusion>, EthError> {
        let head = self.ethereum.head(At::Latest).await?.map_or(0, |head| head.number);
        let event = RootChain::Evidence::SIGNATURE_HASH;
        let about = B256::left_padding_from(&coin.to_be_bytes());
        let (mut shown, mut from, mut range) = (Vec::new(), from, u64::MAX);
        while from <= head {
            let to = head.min(from.saturating_add(range - 1));
            let found = self.ethereum.logs_about(self.address, event, about, from, to).await;
            let logs = match found {
                // Too much for this endpoint, perhaps. Nothing is less than a block.
                Err(EthError::Rpc(_)) if to > from => {
                    range = (to - from).div_ceil(2);
                    continue;
                }
                other => other?,
            };
            let events = logs.iter().filter_map(|log| {
                RootChain::Evidence::decode_log(&log.inner).ok().map(|log| log.data)
            });
            shown.extend(events.filter_map(|event| shown_in(&event)));
            from = to + 1;
        }
        Ok(shown)
    }

    /// Deposits and returns the record's first coin and count. For tokens the caller has approved.
    pub async fn make_deposit(
        &self,
        sender: &Sender,
        kind: u8,
        (token, token_id): (Address, U256),
        value: U256,
        count: u16,
    ) -> Result<(CoinId, u16), EthError> {
        let tx = match kind {
            asset::ETH => {
                let sum = value.saturating_mul(U256::from(count));
                self.transaction(RootChain::depositETHCall { value, count }, sum)
            }
            asset::ERC20 => {
                let call = RootChain::depositERC20Call { token, value, count };
                self.transaction(call, U256::ZERO)
            }
            asset::ERC721 => {
                let call = RootChain::depositERC721Call { token, id: token_id };
                self.transaction(call, U256::ZERO)
            }
            _ => {
                let call = RootChain::depositERC1155Call { token, id: token_id, value, count };
                self.transaction(call, U256::ZERO)
            }
        };
        let receipt = sender.send(tx).await?;
        let event = find_event::<RootChain::Deposited>(self.address, &receipt);
        event.map(|e| (e.firstCoin, e.count)).ok_or(EthError::Answer("no Deposited event".into()))
    }

    /// The transaction that opens an exit; its value is the bond.
    pub fn exit_transaction(&self, exit: &ExitStart, bond: U256) -> TransactionRequest {
        let request = request(exit);
        let IRootChain::ExitRequest { coin, depositId, parent, transfer, auth, hint } = request;
        if exit.transfer.is_none() {
            let call = RootChain::startDepositExitCall { coin, depositId, auth, hint };
            return self.transaction(call, bond);
        }
        let call = RootChain::startExitCall { coin, depositId, parent, transfer, auth, hint };
        self.transaction(call, bond)
    }

    /// The transaction that opens several exits, all or none; its value is the sum of the bonds.
    pub fn exits_transaction(&self, exits: &[ExitStart], bond: U256) -> TransactionRequest {
        let requests: Vec<_> = exits.iter().map(request).collect();
        let value = bond.saturating_mul(U256::from(requests.len()));
        self.transaction(RootChain::startExitsCall { requests }, value)
    }

    /// Opens an exit; returns its id.
    pub async fn start_exit(&self, sender: &Sender, exit: &ExitStart) -> Result<u64, EthError> {
        let receipt = sender.send(self.exit_transaction(exit, self.bond().await?)).await?;
        let event = find_event::<RootChain::ExitStarted>(self.address, &receipt);
        event.map(|e| e.exitId).ok_or(EthError::Answer("no ExitStarted event".into()))
    }

    /// Opens exits in as few transactions as their gas allows; returns (coin, exit) of each. Each
    /// transaction opens all of its exits or none; `opened` gets those of each as it is mined.
    pub async fn start_exits(
        &self,
        sender: &Sender,
        exits: &[ExitStart],
        mut opened: impl FnMut(&[(CoinId, u64)]),
    ) -> Result<(), EthError> {
        let bond = self.bond().await?;
        for chunk in exits.chunks(STARTS_MAX) {
            let receipt = sender.send(self.exits_transaction(chunk, bond)).await?;
            let events = find_events::<RootChain::ExitStarted>(self.address, &receipt);
            opened(&events.map(|event| (event.coin, event.exitId)).collect::<Vec<_>>());
        }
        Ok(())
    }

    /// The transaction that refutes an exit.
    pub fn challenge_transaction(
        &self,
        coin: CoinId,
        exit: u64,
        challenge: &Challenge,
    ) -> TransactionRequest {
        match challenge {
            Challenge::DoubleSpend { other } => {
                let other = included(other);
                let call = RootChain::challengeDoubleSpendCall { coin, exitId: exit, other };
                self.transaction(call, U256::ZERO)
            }
            Challenge::Spent { spend, included: again } => {
                let (block, proof) = again.as_ref().map_or_else(
                    || (0, Bytes::new()),
                    |(block, proof)| (*block, proof.encode().into()),
                );
                let call = RootChain::challengeSpentCall {
                    coin,
                    exitId: exit,
                    spend: included(spend),
                    includedAt: block,
                    inclusionProof: proof,
                };
                self.transaction(call, U256::ZERO)
            }
        }
    }

    /// Refutes an exit.
    pub async fn challenge(
        &self,
        sender: &Sender,
        coin: CoinId,
        exit: u64,
        challenge: &Challenge,
    ) -> Result<(), EthError> {
        sender.send(self.challenge_transaction(coin, exit, challenge)).await.map(drop)
    }

    /// Closes an exit that did not win.
    pub async fn sweep(&self, sender: &Sender, coin: CoinId, exit: u64) -> Result<(), EthError> {
        let call = RootChain::sweepExitCall { coin, exitId: exit };
        sender.send(self.transaction(call, U256::ZERO)).await.map(drop)
    }

    /// Takes the coin's only exit back.
    pub async fn cancel(&self, sender: &Sender, coin: CoinId, exit: u64) -> Result<(), EthError> {
        let call = RootChain::cancelExitCall { coin, exitId: exit };
        sender.send(self.transaction(call, U256::ZERO)).await.map(drop)
    }

    /// Gives the coin to its oldest exit.
    pub async fn finalize(&self, sender: &Sender, coin: CoinId) -> Result<(), EthError> {
        let call = RootChain::finalizeExitCall { coin };
        sender.send(self.transaction(call, U256::ZERO)).await.map(drop)
    }

    /// Gives each of the coins that can be finalized to its oldest exit; returns those.
    pub async fn finalize_many(
        &self,
        sender: &Sender,
        coins: &[CoinId],
    ) -> Result<Vec<CoinId>, EthError> {
        let mut finalized = Vec::new();
        for chunk in coins.chunks(COINS_MAX) {
            let call = RootChain::finalizeExitsCall { coins_: chunk.to_vec() };
            let receipt = sender.send(self.transaction(call, U256::ZERO)).await?;
            let events = find_events::<RootChain::ExitFinalized>(self.address, &receipt);
            finalized.extend(events.map(|event| event.coin));
        }
        Ok(finalized)
    }

    /// Pays finalized coins out; each transaction pays all of its coins or none.
    pub async fn withdraw_many(&self, sender: &Sender, coins: &[CoinId]) -> Result<(), EthError> {
        for chunk in coins.chunks(COINS_MAX) {
            let call = RootChain::withdrawManyCall { coins_: chunk.to_vec(), to: sender.address() };
            sender.send(self.transaction(call, U256::ZERO)).await?;
        }
        Ok(())
    }

    /// Pays a finalized coin out.
    pub async fn withdraw(&self, sender: &Sender, coin: CoinId) -> Result<(), EthError> {
        let call = RootChain::withdrawCall { coin, to: sender.address() };
        sender.send(self.transaction(call, U256::ZERO)).await.map(drop)
    }

    /// Whether a coin's withdrawal would succeed: nothing is sent.
    pub async fn try_withdraw(&self, sender: &Sender, coin: CoinId) -> Result<(), EthError> {
        let call = RootChain::withdrawCall { coin, to: sender.address() };
        sender.gas(&self.transaction(call, U256::ZERO)).await.map(drop)
    }

    /// Pays bonds and rewards out; false if there are none.
    pub async fn withdraw_credits(&self, sender: &Sender) -> Result<bool, EthError> {
        let account = sender.address();
        let credits = self.read(RootChain::creditsCall { account }, At::Latest).await?;
        if credits.is_zero() {
            return Ok(false);
        }
        let call = RootChain::withdrawCreditsCall { to: account };
        sender.send(self.transaction(call, U256::ZERO)).await.map(|_| true)
    }

    /// The transaction that submits roots.
    pub fn submission(&self, submission: &Submission) -> TransactionRequest {
        let signatures: Vec<u8> =
            submission.certificate.signatures.iter().flat_map(|s| s.0).collect();
        let call = RootChain::submitBlocksCall {
            firstNumber: submission.first,
            roots_: submission.roots.clone(),
            set: submission.set.clone().into(),
            bitmap: submission.certificate.bitmap.clone().into(),
            signatures: signatures.into(),
        };
        self.transaction(call, U256::ZERO)
    }
}

/// The events of a kind that `address` emitted.
fn find_events<E: SolEvent>(
    address: Address,
    receipt: &TransactionReceipt,
) -> impl Iterator<Item = E> {
    let logs = receipt.logs().iter().filter(move |log| log.address() == address);
    logs.filter_map(|log| E::decode_log(&log.inner).ok().map(|log| log.data))
}

/// The first event of a kind that `address` emitted.
fn find_event<E: SolEvent>(address: Address, receipt: &TransactionReceipt) -> Option<E> {
    find_events(address, receipt).next()
}

/// Deploys RootChain; returns its address and block.
pub async fn deploy(
    sender: &Sender,
    set: &ValidatorSet,
    params: ExitParams,
) -> Result<(Address, u64), EthError> {
    let arguments =
        (set.hash(), params.exit_period_s, params.hold_period_s, params.bond, params.burn_bps);
    deploy_code(sender, &RootChain::BYTECODE, &arguments.abi_encode_params()).await
}

/// Deploys a contract from its bytecode and encoded arguments; returns its address and block.
pub async fn deploy_code(
    sender: &Sender,
    bytecode: &Bytes,
    arguments: &[u8],
) -> Result<(Address, u64), EthError> {
    let code = [bytecode.as_ref(), arguments].concat();
    let mut tx = TransactionRequest::default().input(Bytes::from(code).into());
    tx.to = Some(alloy::primitives::TxKind::Create);
    let receipt = sender.send(tx).await?;
    let address = receipt.contract_address;
    let missing = || EthError::Answer("no contract address in the receipt".into());
    Ok((address.ok_or_else(missing)?, receipt.block_number.unwrap_or(0)))
}

/// A call of any contract.
pub async fn call_contract(
    sender: &Sender,
    to: Address,
    call: impl SolCall,
) -> Result<(), EthError> {
    let input = Bytes::from(call.abi_encode());
    let tx = TransactionRequest::default().to(to).input(input.into());
    sender.send(tx).await.map(drop)
}
