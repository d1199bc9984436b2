//! Which challenge refutes an exit, and which exits nothing refutes.

use plasma_client::challenge::{Challenge, Inclusion, OpenExit, hint, refute};
use plasma_core::coin::CoinState;
use plasma_core::signature::Signature;
use plasma_core::smt::{Leaf, Proof, prove};
use plasma_core::transfer::SignedTransfer;
use plasma_core::{B256, BlockNumber};

use crate::chain::{COIN, DEPOSIT_BLOCK, address, deposit, domain, pay, start};

/// A proof; refuting does not look into it, for everything known is verified.
fn proof(block: BlockNumber) -> Proof {
    let other = Leaf { coin: COIN + 1, hash: B256::repeat_byte(block as u8) };
    prove(&[other], COIN)
}

fn at(block: BlockNumber, transfer: SignedTransfer) -> Inclusion {
    Inclusion { block, transfer, proof: proof(block) }
}

/// The state that `transfer` makes in `block`, whatever it spends.
fn state(block: BlockNumber, transfer: &SignedTransfer) -> CoinState {
    let owner = transfer.transfer.new_owner;
    CoinState { coin: COIN, owner, block, hash: transfer.transfer.digest(&domain()) }
}

/// The exit of `exiting` with its parent; the deposit's exit if they are the same.
fn exit(parent: &CoinState, exiting: &CoinState) -> OpenExit {
    let of_deposit = parent == exiting;
    OpenExit {
        id: 1,
        parent_block: parent.block,
        parent_hash: if of_deposit { B256::ZERO } else { parent.hash },
        parent_owner: if of_deposit { Default::default() } else { parent.owner },
        block: if of_deposit { 0 } else { exiting.block },
        state_hash: exiting.hash,
        beneficiary: exiting.owner,
        payer: exiting.owner,
        bond: 1,
        opened_at: 1,
    }
}

fn refuted(exit: &OpenExit, known: &[Inclusion]) -> Option<Challenge> {
    let found = refute(exit, &deposit(), COIN, known, &domain());
    // The order in which it was shown changes nothing here: no case has two answers.
    let reversed: Vec<Inclusion> = known.iter().rev().cloned().collect();
    assert_eq!(refute(exit, &deposit(), COIN, &reversed, &domain()), found);
    found
}

fn spent(spend: &Inclusion) -> Option<Challenge> {
    Some(Challenge::Spent { spend: spend.clone(), included: None })
}

fn double(other: &Inclusion) -> Option<Challenge> {
    Some(Challenge::DoubleSpend { other: other.clone() })
}

/// Alice to bob in block 4, bob to carol in block 6.
fn path() -> (Inclusion, CoinState, Inclusion, CoinState) {
    let first = at(4, pay(&start(), "alice", "bob", 10));
    let bobs = state(4, &first.transfer);
    let second = at(6, pay(&bobs, "bob", "carol", 10));
    let carols = state(6, &second.transfer);
    (first, bobs, second, carols)
}

#[test]
fn a_spent_state_is_refuted_by_the_spend() {
    let (first, bobs, second, carols) = path();
    let known = [first.clone(), second.clone()];
    assert_eq!(refuted(&exit(&start(), &start()), &known), spent(&first), "the deposit");
    assert_eq!(refuted(&exit(&start(), &bobs), &known), spent(&second), "a transfer");
    assert_eq!(refuted(&exit(&bobs, &carols), &known), None, "the last state is its owner's");
    assert_eq!(refuted(&exit(&start(), &start()), &[]), None);
    assert_eq!(refuted(&exit(&start(), &bobs), &known[..1]), None);
}

/// As a state being spent, the deposit stands at its own block, never at 0.
#[test]
fn a_deposit_exit_is_refuted_above_the_deposit_block_only() {
    let early = at(DEPOSIT_BLOCK, pay(&start(), "alice", "bob", 10));
    assert_eq!(refuted(&exit(&start(), &start()), std::slice::from_ref(&early)), None);
    let later = at(DEPOSIT_BLOCK + 1, early.transfer);
    assert_eq!(refuted(&exit(&start(), &start()), std::slice::from_ref(&later)), spent(&later));
    let zero = CoinState { block: 0, ..start() };
    let of_zero = at(4, pay(&zero, "alice", "bob", 10));
    assert_eq!(refuted(&exit(&start(), &start()), &[of_zero]), None);
}

/// The transfer is replayed in block 7 and spent as of there, or exits from the replay while its
/// first inclusion is spent.
#[test]
fn a_spend_of_another_inclusion_refutes_with_that_inclusion() {
    let (first, bobs, second, _) = path();
    let replay = at(7, first.transfer);
    let again = CoinState { block: 7, ..bobs };
    let of_replay = at(8, pay(&again, "bob", "dave", 10));
    let with = |spend: &Inclusion, shown: &Inclusion| {
        let included = Some((shown.block, shown.proof.clone()));
        Some(Challenge::Spent { spend: spend.clone(), included })
    };
    let known = [first.clone(), replay.clone(), of_replay.clone()];
    assert_eq!(refuted(&exit(&start(), &bobs), &known), with(&of_replay, &replay));
    let known = [first.clone(), second.clone(), replay.clone()];
    assert_eq!(refuted(&exit(&start(), &again), &known), with(&second, &first));
    // Without the other inclusion at hand the spend does not fit.
    assert_eq!(refuted(&exit(&start(), &again), &[second.clone(), replay.clone()]), None);
    // An inclusion at the parent's block or before is none.
    let parent = CoinState { block: 4, ..start() };
    let forged = OpenExit { parent_block: parent.block, ..exit(&start(), &again) };
    assert_eq!(refuted(&forged, &[first, second, replay]), None);
}

#[test]
fn an_earlier_child_of_the_parent_refutes_a_double_spend() {
    let (first, bobs, ..) = path();
    let second = at(6, pay(&start(), "alice", "mallory", 10));
    let mallorys = state(6, &second.transfer);
    let known = [first.clone(), second.clone()];
    assert_eq!(refuted(&exit(&start(), &mallorys), &known), double(&first));
    // The first one stands: the other came later.
    assert_eq!(refuted(&exit(&start(), &bobs), &known), None);
}

#[test]
fn the_other_child_must_be_before_the_exit() {
    let exiting = at(5, pay(&start(), "alice", "bob", 10));
    let exit = exit(&start(), &state(5, &exiting.transfer));
    let other = pay(&start(), "alice", "carol", 10);
    for (block, refutes) in [(DEPOSIT_BLOCK, false), (3, true), (4, true), (5, false), (6, false)] {
        let other = at(block, other);
        let expected = if refutes { double(&other) } else { None };
        assert_eq!(refuted(&exit, &[exiting.clone(), other]), expected, "block {block}");
    }
}

/// The same message is no double spend, by whatever signature and wherever it is included.
#[test]
fn the_exiting_transfer_itself_refutes_nothing() {
    let first = at(3, pay(&start(), "alice", "bob", 10));
    let replay = at(6, first.transfer);
    let later = state(6, &first.transfer);
    assert_eq!(refuted(&exit(&start(), &later), &[first, replay]), None);
}

#[test]
fn what_is_no_valid_child_refutes_nothing() {
    let (first, bobs, second, _) = path();
    let mallorys = pay(&bobs, "mallory", "carol", 10);
    let unsigned = SignedTransfer { signature: Signature::ZERO, ..second.transfer };
    let other_coin = pay(&CoinState { coin: COIN + 1, ..bobs }, "bob", "carol", 10);
    let other_block = pay(&CoinState { block: 5, ..bobs }, "bob", "carol", 10);
    let other_hash = pay(&CoinState { hash: B256::ZERO, ..bobs }, "bob", "carol", 10);
    let expired = pay(&bobs, "bob", "carol", 5);
    let to_nobody = {
        let mut transfer = second.transfer.transfer;
        transfer.new_owner = Default::default();
        transfer.sign(&crate::chain::key("bob"), &domain())
    };
    let garbage = [mallorys, unsigned, other_coin, other_block, other_hash, expired, to_nobody];
    let exit = exit(&start(), &bobs);
    for (i, transfer) in garbage.into_iter().enumerate() {
        assert_eq!(refuted(&exit, &[first.clone(), at(6, transfer)]), None, "case {i}");
        // Garbage does not hide what is good.
        let known = [first.clone(), at(6, transfer), at(7, second.transfer)];
        assert_eq!(refuted(&exit, &known), spent(&known[2]), "case {i}");
    }
    // At the exiting block or before it is no child, and one block later it is.
    for (block, refutes) in [(3, false), (4, false), (5, true), (10, true), (11, false)] {
        let spend = at(block, second.transfer);
        let expected = if refutes { spent(&spend) } else { None };
        assert_eq!(refuted(&exit, &[spend]), expected, "block {block}");
    }
}

/// The same signatures in another contract's domain.
#[test]
fn a_foreign_domain_refutes_nothing() {
    let (first, bobs, second, _) = path();
    let foreign = plasma_core::domain::Domain::new(1, domain().root_chain);
    let exit = exit(&start(), &bobs);
    assert_eq!(refute(&exit, &deposit(), COIN, &[first, second], &foreign), None);
}

/// An exit from garbage has no valid history, and yet no challenge fits it: the older exit wins.
#[test]
fn an_exit_from_garbage_is_not_refuted() {
    let (first, bobs, second, carols) = path();
    let garbage = CoinState { owner: address("mallory"), hash: B256::repeat_byte(9), ..bobs };
    let child = pay(&garbage, "mallory", "mallory", 10);
    let exit = exit(&garbage, &state(7, &child));
    assert_eq!(refuted(&exit, &[first, second, at(7, child)]), None);
    assert!(exit.age() < self::exit(&carols, &state(8, &child)).age());
}

#[test]
fn the_hint_is_the_youngest_older_exit() {
    let open =
        |id, parent_block, block| OpenExit { id, parent_block, block, ..exit(&start(), &start()) };
    let list = [open(7, 2, 0), open(3, 2, 5), open(9, 4, 5), open(4, 4, 6)];
    let ages: Vec<u128> = list.iter().map(OpenExit::age).collect();
    assert!(ages.is_sorted());
    let of = |parent, block| hint(&list, plasma_core::exit::age(parent, block));
    assert_eq!(hint(&[], ages[0]), 0);
    assert_eq!(of(1, 9), 0, "older than all");
    assert_eq!(of(2, 0), 0, "as old as the oldest");
    assert_eq!((of(2, 1), of(2, 5), of(2, 6)), (7, 7, 3));
    assert_eq!((of(4, 6), of(4, 7), of(u64::MAX, u64::MAX)), (9, 4, 4));
}
