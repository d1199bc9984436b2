//! The real contract, run in the process: the committed bytecode in revm, one call after another.
//!
//! Nothing here knows a rule of the game. Gas is free, but no transaction gets more than a real
//! one may have (EIP-7825).

use alloy_sol_types::{SolCall, SolInterface, SolValue};
use plasma_core::block::{chain_hash, chain_hash_genesis};
use plasma_core::certificate::{Certificate, attestation_digest};
use plasma_core::domain::Domain;
use plasma_core::signature::SigningKey;
use plasma_core::validators::{Validator, ValidatorSet};
use plasma_core::{Address, B256, BlockNumber, CoinId, U256};
use revm::context::result::{ExecutionResult, Output};
use revm::context::{Context, TxEnv};
use revm::database::{CacheDB, EmptyDB};
use revm::handler::{MainnetContext, MainnetEvm};
use revm::primitives::hardfork::SpecId;
use revm::primitives::{Bytes, TxKind};
use revm::state::{AccountInfo, Bytecode};
use revm::{DatabaseRef, ExecuteCommitEvm, ExecuteEvm, MainBuilder, MainContext};

use super::calls::{Call, Consent, ExitStart, PlasmaBlock, Shown, Submission, Tx};
use super::model::Params;
use crate::wallet::key;

#[allow(missing_docs, clippy::too_many_arguments, clippy::all)]
mod abi {
    alloy_sol_types::sol!(
        #[sol(all_derives)]
        RootChain,
        "../../contracts/abi/RootChain.json"
    );
}

pub use abi::{IRootChain, RootChain};

/// Ethereum's chain id here.
pub const CHAIN_ID: u64 = 31_337;
/// What everybody owns before the game, in wei.
pub const PURSE: u128 = 1_000_000_000_000_000_000_000_000;
/// Gas of one transaction: all that Ethereum allows.
const GAS: u64 = 16_777_216;
/// `revert(0, 0)`.
const REVERT: [u8; 5] = [0x60, 0x00, 0x60, 0x00, 0xfd];

type Evm = MainnetEvm<MainnetContext<CacheDB<EmptyDB>>>;

/// The validators of every game: three, of powers 3, 2 and 2, so that two are enough with the
/// first and not without.
#[derive(Debug, Clone)]
pub struct Validators {
    /// The set.
    pub set: ValidatorSet,
    /// Their root keys, in set order.
    pub keys: Vec<SigningKey>,
}

impl Default for Validators {
    fn default() -> Self {
        let mut keys: Vec<_> = (0..3).map(|i| key(0xa11ce + i)).collect();
        keys.sort_by_key(SigningKey::address);
        let validators = (0u8..).zip(&keys).map(|(i, key)| Validator {
            root_key: key.address(),
            power: if i == 0 { 3 } else { 2 },
            consensus_key: [i; 32],
        });
        let set = ValidatorSet::new(1, validators.collect()).unwrap();
        Self { set, keys }
    }
}

impl Validators {
    /// A submission that the contract accepts after the block (`last`, `chain`), signed by the
    /// first two validators.
    pub fn submission(
        &self,
        domain: &Domain,
        (last, chain): (BlockNumber, B256),
        blocks: Vec<PlasmaBlock>,
    ) -> Submission {
        let first = last + 1;
        let hash = (first..)
            .zip(&blocks)
            .fold(chain, |hash, (number, block)| chain_hash(hash, number, block.root));
        let number = last + blocks.len() as u64;
        let digest = attestation_digest(domain, number, hash, self.set.id());
        let signed: Vec<_> = (0..2).map(|i| (i, self.keys[i].sign(digest))).collect();
        let certificate = Certificate::new(number, self.set.len(), &signed);
        Submission {
            first,
            blocks,
            set: self.set.encode(),
            bitmap: certificate.bitmap,
            signatures: certificate.signatures.iter().flat_map(|s| s.0).collect(),
        }
    }
}

/// A deployed contract and its Ethereum.
pub struct Contract {
    evm: Evm,
    /// The domain of this deployment.
    pub domain: Domain,
    /// The validators that it was deployed with.
    pub validators: Validators,
    /// What the calls that succeeded have logged, oldest first; taken by `take_logs`.
    logs: Vec<revm::primitives::Log>,
}

impl Contract {
    /// Deploys the committed bytecode.
    ///
    /// # Panics
    /// If the constructor refuses the parameters.
    pub fn deploy(params: Params) -> Self {
        let validators = Validators::default();
        let mut evm = Context::mainnet()
            .with_db(CacheDB::new(EmptyDB::default()))
            .modify_cfg_chained(|cfg| {
                cfg.set_spec_and_mainnet_gas_params(SpecId::OSAKA);
                cfg.chain_id = CHAIN_ID;
                cfg.disable_nonce_check = true;
            })
            .build_mainnet();
        let arguments = (
            validators.set.hash(),
            params.exit_period_s,
            params.hold_period_s,
            params.bond,
            params.burn_bps,
        );
        let code = [RootChain::BYTECODE.as_ref(), &arguments.abi_encode_params()].concat();
        let tx = TxEnv::builder()
            .kind(TxKind::Create)
            .data(code.into())
            .gas_limit(GAS)
            .gas_price(0)
            .chain_id(Some(CHAIN_ID))
            .build()
            .unwrap();
        let result = evm.transact_commit(tx).unwrap();
        let ExecutionResult::Success { output: Output::Create(_, Some(address)), .. } = result
        else {
            panic!("not deployed: {result:?}");
        };
        Self { evm, domain: Domain::new(CHAIN_ID, address), validators, logs: Vec::new() }
    }

    /// Gives an account its purse.
    pub fn fund(&mut self, account: Address) {
        let info = AccountInfo { balance: U256::from(PURSE), ..Default::default() };
        self.evm.ctx.journaled_state.database.insert_account_info(account, info);
    }

    /// Makes an account refuse ether.
    pub fn refuse(&mut self, account: Address) {
        let code = Bytecode::new_raw(Bytes::from_static(&REVERT));
        let info = AccountInfo {
            balance: U256::from(PURSE),
            code_hash: code.hash_slow(),
            code: Some(code),
            ..Default::default()
        };
        self.evm.ctx.journaled_state.database.insert_account_info(account, info);
    }

    /// Wei that an account owns.
    pub fn balance(&self, account: Address) -> U256 {
        let database = &self.evm.ctx.journaled_state.database;
        database.basic_ref(account).unwrap().unwrap_or_default().balance
    }

    /// Sends a transaction; a refused one gives the name of the contract's error.
    pub fn play(&mut self, tx: &Tx) -> Result<(), String> {
        self.set_time(tx.time);
        let env = self.transaction(tx.sender, tx.value, encode(&tx.call));
        match self.evm.transact_commit(env).unwrap() {
            ExecutionResult::Success { logs, .. } => {
                self.logs.extend(logs);
                Ok(())
            }
            ExecutionResult::Revert { output, .. } => Err(error_name(&output)),
            ExecutionResult::Halt { reason, .. } => Err(format!("{reason:?}")),
        }
    }

    /// Sets the timestamp of the Ethereum block, also for views.
    pub fn set_time(&mut self, time: u64) {
        self.evm.ctx.block.timestamp = U256::from(time);
    }

    /// What was logged since the last call of this function.
    pub fn take_logs(&mut self) -> Vec<revm::primitives::Log> {
        std::mem::take(&mut self.logs)
    }

    /// Calls a view.
    ///
    /// # Panics
    /// If the contract refuses.
    pub fn view<C: SolCall>(&mut self, call: C) -> C::Return {
        let env = self.transaction(Address::ZERO, U256::ZERO, call.abi_encode());
        let result = self.evm.transact(env).unwrap().result;
        let ExecutionResult::Success { output, .. } = result else {
            panic!("{}: {result:?}", C::SIGNATURE);
        };
        C::abi_decode_returns(output.data()).unwrap()
    }

    fn transaction(&self, sender: Address, value: U256, data: Vec<u8>) -> TxEnv {
        TxEnv::builder()
            .caller(sender)
            .kind(TxKind::Call(self.domain.root_chain))
            .value(value)
            .data(data.into())
            .gas_limit(GAS)
            .gas_price(0)
            .chain_id(Some(CHAIN_ID))
            .build()
            .unwrap()
    }

    /// Stores blocks, certified, at `time`.
    ///
    /// # Panics
    /// If the contract refuses.
    pub fn submit(&mut self, time: u64, sender: Address, blocks: Vec<PlasmaBlock>) {
        let last = self.view(RootChain::lastBlockCall {});
        let chain = self.view(RootChain::chainHashCall {});
        let submission = self.validators.submission(&self.domain, (last, chain), blocks);
        let call = Call::SubmitBlocks(submission);
        self.play(&Tx { time, sender, value: U256::ZERO, call }).unwrap();
    }

    /// Status, depositId, holdUntil and head of a coin.
    pub fn coin(&mut self, coin: CoinId) -> RootChain::coinsReturn {
        self.view(RootChain::coinsCall { coin })
    }
}

/// The chain hash of a contract without blocks.
pub fn genesis(domain: &Domain) -> (BlockNumber, B256) {
    (0, chain_hash_genesis(domain))
}

/// The error in revert data by its name; else the data in hex.
fn error_name(data: &[u8]) -> String {
    match RootChain::RootChainErrors::abi_decode(data) {
        Ok(error) => format!("{error:?}").split('(').next().unwrap_or_default().to_owned(),
        Err(_) => format!("0x{}", revm::primitives::hex::encode(data)),
    }
}

fn included(shown: &Shown) -> IRootChain::Included {
    let t = &shown.transfer;
    IRootChain::Included {
        blockNumber: shown.block,
        transfer: IRootChain::Transfer {
            coin: t.coin,
            prevBlock: t.prev_block,
            prevHash: t.prev_hash,
            newOwner: t.new_owner,
            maxBlock: t.max_block,
        },
        signature: shown.signature.clone().into(),
        proof: shown.proof.clone().into(),
    }
}

fn authorization(consent: &Consent) -> IRootChain::Authorization {
    IRootChain::Authorization {
        notAfter: consent.not_after,
        signature: consent.signature.clone().into(),
    }
}

fn request(start: &ExitStart) -> IRootChain::ExitRequest {
    IRootChain::ExitRequest {
        coin: start.coin,
        depositId: start.deposit_id,
        parent: included(&start.parent),
        transfer: included(&start.transfer),
        auth: authorization(&start.consent),
        hint: start.hint,
    }
}

fn encode(call: &Call) -> Vec<u8> {
    match call.clone() {
        Call::DepositEth { value, count } => {
            RootChain::depositETHCall { value, count }.abi_encode()
        }
        Call::SubmitBlocks(s) => encode_submission(s),
        Call::StartExit(start) => {
            let IRootChain::ExitRequest { coin, depositId, parent, transfer, auth, hint } =
                request(&start);
            RootChain::startExitCall { coin, depositId, parent, transfer, auth, hint }.abi_encode()
        }
        Call::StartDepositExit(start) => RootChain::startDepositExitCall {
            coin: start.coin,
            depositId: start.deposit_id,
            auth: authorization(&start.consent),
            hint: start.hint,
        }
        .abi_encode(),
        Call::StartExits(starts) => {
            let requests = starts.iter().map(request).collect();
            RootChain::startExitsCall { requests }.abi_encode()
        }
        Call::ChallengeSpent { coin, exit, spend, at, proof } => RootChain::challengeSpentCall {
            coin,
            exitId: exit,
            spend: included(&spend),
            includedAt: at,
            inclusionProof: proof.into(),
        }
        .abi_encode(),
        Call::ChallengeDoubleSpend { coin, exit, other } => {
            let other = included(&other);
            RootChain::challengeDoubleSpendCall { coin, exitId: exit, other }.abi_encode()
        }
        Call::FinalizeExit { coin } => RootChain::finalizeExitCall { coin }.abi_encode(),
        Call::FinalizeExits { coins } => {
            RootChain::finalizeExitsCall { coins_: coins }.abi_encode()
        }
        Call::SweepExit { coin, exit } => {
            RootChain::sweepExitCall { coin, exitId: exit }.abi_encode()
        }
        Call::CancelExit { coin, exit } => {
            RootChain::cancelExitCall { coin, exitId: exit }.abi_encode()
        }
        Call::Withdraw { coin, to } => RootChain::withdrawCall { coin, to }.abi_encode(),
        Call::WithdrawMany { coins, to } => {
            RootChain::withdrawManyCall { coins_: coins, to }.abi_encode()
        }
        Call::WithdrawCredits { to } => RootChain::withdrawCreditsCall { to }.abi_encode(),
    }
}

fn encode_submission(s: Submission) -> Vec<u8> {
    RootChain::submitBlocksCall {
        firstNumber: s.first,
        roots_: s.blocks.iter().map(|block| block.root).collect(),
        set: s.set.into(),
        bitmap: s.bitmap.into(),
        signatures: s.signatures.into(),
    }
    .abi_encode()
}
