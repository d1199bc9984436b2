//! Model and contract side by side: any difference in an answer or in the state is a panic that
//! names the call.

use std::collections::BTreeSet;

use alloy_sol_types::SolValue;
use plasma_core::{Address, B256, BlockNumber, CoinId, U256};

use super::calls::{Call, Refusal, Tx};
use super::contract::{Contract, IRootChain, PURSE, RootChain};
use super::model::{Exit, ExitState, Model, Params, Status};

/// Both games.
pub struct Referee {
    /// The reference.
    pub model: Model,
    /// The real one.
    pub contract: Contract,
    people: BTreeSet<Address>,
}

impl Referee {
    /// Deploys the contract and sets up the model beside it, with funded `people`.
    pub fn new(params: Params, people: impl IntoIterator<Item = Address>) -> Self {
        let mut contract = Contract::deploy(params);
        let people: BTreeSet<_> = people.into_iter().collect();
        for account in &people {
            contract.fund(*account);
        }
        let model = Model::new(contract.domain, params, contract.validators.set.clone());
        Self { model, contract, people }
    }

    /// Adds an account that refuses ether.
    pub fn add_refusing(&mut self, account: Address) {
        self.contract.refuse(account);
        self.model.refusing.insert(account);
        self.people.insert(account);
    }

    /// Plays a call on both, and compares the answers and the state that the call can touch.
    ///
    /// # Panics
    /// On any difference.
    pub fn play(&mut self, tx: &Tx) -> Result<(), Refusal> {
        let wanted = self.model.play(tx);
        let got = self.contract.play(tx);
        let name = wanted.map_err(|refusal| format!("{refusal:?}"));
        assert_eq!(got, name, "contract (left) and model differ on {tx:#?}");
        self.compare_counters(tx);
        for coin in touched(&tx.call) {
            self.compare_coin(coin, tx);
        }
        wanted
    }

    /// Compares everything.
    ///
    /// # Panics
    /// On any difference.
    pub fn compare_all(&mut self, tx: &Tx) {
        self.compare_counters(tx);
        for coin in 0..=self.model.last_coin() + 1 {
            self.compare_coin(coin, tx);
        }
        for index in 0..self.model.exits.len() {
            self.compare_exit(index as u64 + 1, tx);
        }
        for (number, block) in (1..).zip(self.model.blocks.clone()) {
            let root = self.contract.view(RootChain::rootsCall { blockNumber: number });
            assert_eq!(root, block.root, "root {number}");
        }
        for account in self.people.clone() {
            let credits = self.model.credits.get(&account).copied().unwrap_or_default();
            assert_eq!(
                self.contract.view(RootChain::creditsCall { account }),
                credits,
                "credits of {account} after {tx:#?}"
            );
            let purse = self.model.purses.get(&account).copied().unwrap_or(0);
            let owned = U256::try_from(PURSE.cast_signed() + purse).unwrap();
            assert_eq!(self.contract.balance(account), owned, "{account} after {tx:#?}");
        }
        self.compare_sums();
    }

    /// What comes in is held, credited, burned or still to be paid out.
    fn compare_sums(&self) {
        let model = &self.model;
        let open = model.exits.iter().filter(|e| e.state == ExitState::Open);
        let held: U256 = open.map(|exit| exit.bond).sum();
        let credits: U256 = model.credits.values().sum();
        let unpaid = |coin: &CoinId| model.coin(*coin).status() != Status::Withdrawn;
        let escrow: U256 = model
            .deposits
            .iter()
            .map(|d| {
                let coins = (d.first_coin..d.first_coin + u64::from(d.count)).filter(unpaid);
                d.value * U256::from(coins.count())
            })
            .sum();
        assert_eq!(model.balance, held + credits + model.burned + escrow, "bonds are conserved");
    }

    fn compare_counters(&mut self, tx: &Tx) {
        let Model { deposits, exits, queue, .. } = &self.model;
        let wanted = (
            self.model.last_block(),
            self.model.chain_hash,
            (deposits.len() as u64, self.model.last_coin(), exits.len() as u64),
            *queue,
            (self.model.burned, self.model.balance),
        );
        let contract = &mut self.contract;
        let got = (
            contract.view(RootChain::lastBlockCall {}),
            contract.view(RootChain::chainHashCall {}),
            (
                contract.view(RootChain::lastDepositCall {}),
                contract.view(RootChain::lastCoinCall {}),
                contract.view(RootChain::lastExitCall {}),
            ),
            (
                contract.view(RootChain::eventCountCall {}),
                contract.view(RootChain::eventHashCall {}),
            ),
            (contract.view(RootChain::burnedCall {}), contract.balance(contract.domain.root_chain)),
        );
        assert_eq!(got, wanted, "contract (left) and model differ after {tx:#?}");
    }

    /// The coin's slot, and the list of its open exits through `coinState`.
    fn compare_coin(&mut self, coin: CoinId, tx: &Tx) {
        let game = self.model.coin(coin);
        let slot = self.contract.coin(coin);
        let head = game.winner.or(game.open.first().copied()).unwrap_or(0);
        assert_eq!(
            (slot.status, slot.depositId, slot.holdUntil, slot.head),
            (game.status() as u8, game.deposit_id, game.hold_until, head),
            "coin {coin} after {tx:#?}"
        );
        let Some(deposit) = self.model.deposit_of(coin).copied() else { return };
        let id = deposit.deposit_id;
        let state = self.contract.view(RootChain::coinStateCall { coin, depositId: id });
        let record = IRootChain::Deposit {
            owner: deposit.owner,
            firstCoin: deposit.first_coin,
            count: deposit.count,
            assetKind: deposit.asset_kind,
            token: deposit.token,
            depositBlock: deposit.deposit_block,
            value: deposit.value,
            tokenId: deposit.token_id,
        };
        assert_eq!(state.record, record, "record of coin {coin}");
        assert_eq!(state.status, game.status() as u8);
        assert_eq!(state.holdUntil, game.hold_until);
        let ids: Vec<u64> = state.open.iter().map(|open| open.exitId).collect();
        assert_eq!(ids, game.open, "open exits of coin {coin} after {tx:#?}");
        for (place, open) in state.open.iter().enumerate() {
            self.same_exit(open.exitId, &open.data, tx);
            // Links of an active coin; the winner leaves the model's list, not the contract's.
            if game.status() == Status::Active {
                let near = |place: Option<usize>| place.and_then(|i| ids.get(i)).unwrap_or(&0);
                assert_eq!(open.data.prev, *near(place.checked_sub(1)), "{tx:#?}");
                assert_eq!(open.data.next, *near(Some(place + 1)), "{tx:#?}");
            }
        }
    }

    fn compare_exit(&mut self, id: u64, tx: &Tx) {
        let exit = *self.model.exit(id);
        let data = self.contract.view(RootChain::exitsCall { coin: exit.coin, exitId: id });
        self.same_exit(id, &data, tx);
        let key = used_key(exit.coin, exit.parent_block, exit.block);
        let used = self.model.used.contains(&(exit.coin, exit.parent_block, exit.block));
        assert_eq!(self.contract.view(RootChain::usedCall { key }), used, "{tx:#?}");
    }

    fn same_exit(&self, id: u64, data: &IRootChain::Exit, tx: &Tx) {
        let exit = self.model.exit(id);
        let wanted = IRootChain::Exit { prev: data.prev, next: data.next, ..exported(exit) };
        assert_eq!(*data, wanted, "exit {id} after {tx:#?}");
    }
}

/// An exit as the contract has it, unlinked.
fn exported(exit: &Exit) -> IRootChain::Exit {
    let (parent_hash, parent_owner) = exit.parent;
    IRootChain::Exit {
        parentBlock: exit.parent_block,
        blockNumber: exit.block,
        prev: 0,
        next: 0,
        beneficiary: exit.beneficiary,
        openedAt: exit.opened_at.try_into().unwrap(),
        state: match exit.state {
            ExitState::Open => 1,
            ExitState::Closed => 2,
            ExitState::Won => 3,
        },
        payer: exit.payer,
        bond: exit.bond.to(),
        transferHash: exit.hash,
        parentHash: parent_hash,
        parentOwner: parent_owner,
    }
}

/// Key of `used`: `keccak(coin:8 || p:8 || k:8)`.
pub fn used_key(coin: CoinId, parent: BlockNumber, block: BlockNumber) -> B256 {
    revm::primitives::keccak256((coin, parent, block).abi_encode_packed())
}

fn touched(call: &Call) -> Vec<CoinId> {
    match call {
        Call::DepositEth { .. } | Call::SubmitBlocks(_) | Call::WithdrawCredits { .. } => {
            Vec::new()
        }
        Call::StartExit(start) | Call::StartDepositExit(start) => vec![start.coin],
        Call::StartExits(starts) => starts.iter().map(|start| start.coin).collect(),
        Call::ChallengeSpent { coin, .. }
        | Call::ChallengeDoubleSpend { coin, .. }
        | Call::FinalizeExit { coin }
        | Call::SweepExit { coin, .. }
        | Call::CancelExit { coin, .. }
        | Call::Withdraw { coin, .. } => vec![*coin],
        Call::FinalizeExits { coins } | Call::WithdrawMany { coins, .. } => coins.clone(),
    }
}
