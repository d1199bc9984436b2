//! Model and contract answer the same to random calls, and every answer that the documents know
//! occurs often enough to mean something.
//!
//! `PLASMA_EXIT_GAME_CALLS` (100,000) and `PLASMA_EXIT_GAME_SEED` (1) change the run.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use plasma_testkit::exit_game::{Refusal, Rules};

use crate::from_env;
use crate::generator::Generator;

/// Calls of one game: each has its own contract.
const GAME_CALLS: u64 = 1_000;
/// How often everything is compared, and not only what a call can touch.
const COMPARE_ALL_EVERY: u64 = 100;
/// Fewest occurrences of an answer of a function in 100,000 calls.
const OCCURRENCES_MIN: u64 = 10;

/// Games in which a model without a rule must differ from the contract.
const MUTANT_GAMES_MAX: u64 = 30;

type Answers = BTreeMap<(&'static str, Option<Refusal>), u64>;

/// Names the game if it fails.
struct Naming(u64);

impl Drop for Naming {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay: PLASMA_EXIT_GAME_CALLS=1 PLASMA_EXIT_GAME_SEED={}", self.0);
        }
    }
}

fn play(seed: u64) -> Answers {
    let _naming = Naming(seed);
    let mut game = Generator::new(seed);
    let mut answers = Answers::new();
    for call in 1..=GAME_CALLS {
        let tx = game.next_tx();
        let answer = game.referee.play(&tx);
        *answers.entry((tx.call.name(), answer.err())).or_default() += 1;
        if call % COMPARE_ALL_EVERY == 0 {
            game.referee.compare_all(&tx);
        }
    }
    answers
}

#[test]
fn model_and_contract_agree() {
    let calls = from_env("PLASMA_EXIT_GAME_CALLS", 100_000);
    let seed = from_env("PLASMA_EXIT_GAME_SEED", 1);
    let games = calls.div_ceil(GAME_CALLS);
    println!("{games} games of {GAME_CALLS} calls, seeds from {seed}");
    let next = AtomicU64::new(seed);
    let answers = Mutex::new(Answers::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let own = next.fetch_add(1, Ordering::Relaxed);
                    if own >= seed + games {
                        return;
                    }
                    let of_game = play(own);
                    let mut all = answers.lock().unwrap();
                    for (answer, count) in of_game {
                        *all.entry(answer).or_default() += count;
                    }
                }
            });
        }
    });
    let answers = answers.into_inner().unwrap();
    for ((name, refusal), count) in &answers {
        println!("{count:>7} {name} {}", refusal.map_or("ok".into(), |r| format!("{r:?}")));
    }
    let rare: Vec<_> = wanted()
        .into_iter()
        .map(|answer| (answer, answers.get(&answer).copied().unwrap_or(0)))
        .filter(|(_, count)| count * 100_000 < OCCURRENCES_MIN * calls)
        .collect();
    // A single replayed game proves nothing about frequencies.
    assert!(rare.is_empty() || calls < 100_000, "too rare to prove anything: {rare:?}");
}

/// The comparison is worth something: a model without any one rule is found out.
#[test]
fn a_model_without_a_rule_disagrees() {
    for (name, rules) in Rules::each_dropped() {
        let found = (1..=MUTANT_GAMES_MAX).any(|seed| {
            let play = || {
                let mut game = Generator::new(seed);
                game.referee.model.rules = rules;
                for _ in 0..GAME_CALLS {
                    let tx = game.next_tx();
                    let _ = game.referee.play(&tx);
                }
            };
            std::panic::catch_unwind(play).is_err()
        });
        assert!(found, "no call shows that the model lacks the rule `{name}`");
    }
}

/// Every answer of every function that `exit-game.md` and `formats.md` know.
fn wanted() -> Vec<(&'static str, Option<Refusal>)> {
    use Refusal::*;
    let opening = [NotActive, WrongDeposit, BadSignature, NotAuthorised, ExitExists, WrongBond];
    let child = [NotIncluded, WrongCoin, NotChild, BadSignature, NotAfterParent, Expired];
    let open = [NotActive, NoExit, ExitClosed];
    let start = [&opening[..], &child, &[BeforeDeposit]].concat();
    let table: [(&'static str, Vec<Refusal>); 14] = [
        ("depositETH", vec![BadCount, ZeroValue, WrongAmount]),
        (
            "submitBlocks",
            vec![
                NotNext,
                NoRoots,
                TooManyRoots,
                ZeroRoot,
                WrongSet,
                BadBitmap,
                BadSignatures,
                NotEnoughPower,
            ],
        ),
        ("startExit", start),
        ("startDepositExit", opening.to_vec()),
        ("startExits", opening.to_vec()),
        ("challengeSpent", [&open[..], &child, &[NotSameTransfer]].concat()),
        (
            "challengeDoubleSpend",
            [&open[..], &child, &[DepositExit, SameTransfer, NotBefore]].concat(),
        ),
        ("finalizeExit", vec![NotActive, NoExit, TooEarly, OnHold]),
        ("finalizeExits", vec![]),
        ("sweepExit", vec![NotExited, NoExit, ExitClosed]),
        ("cancelExit", [&open[..], &[NotAuthorised, OtherExitsOpen]].concat()),
        (
            "withdraw",
            vec![AlreadyWithdrawn, NotExited, NotBeneficiary, BadRecipient, EthTransferFailed],
        ),
        (
            "withdrawMany",
            vec![AlreadyWithdrawn, NotExited, NotBeneficiary, BadRecipient, EthTransferFailed],
        ),
        ("withdrawCredits", vec![BadRecipient, NoCredits, EthTransferFailed]),
    ];
    let answers = table.into_iter().flat_map(|(name, refusals)| {
        let refusals = refusals.into_iter().map(Some);
        std::iter::once(None).chain(refusals).map(move |answer| (name, answer))
    });
    answers.collect()
}
