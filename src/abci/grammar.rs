//! The order in which CometBFT v0.38 may call an application, as a check of recorded calls.
//!
//! One process life is one execution (`spec/abci/abci++_comet_expected_behavior.md`):
//!
//! ```text
//! start       = clean-start / recovery
//! clean-start = ( info init-chain / *(offer *apply) offer 1*apply info ) consensus-exec
//! recovery    = info [init-chain] consensus-exec
//! consensus-exec = 1*height
//! height      = *round finalize-block commit
//! round       = *verify [prepare [process]] [*verify extend *verify]
//!             / *verify [process] [*verify extend *verify]
//! ```
//!
//! Any time: echo, flush, info, query, check-tx, list-snapshots, load-snapshot-chunk; of these
//! only info is recorded, because it also has a place in the rules. A life may be cut anywhere,
//! so every prefix of an execution is accepted. Rounds repeat, so the rules allow the calls of a
//! round in any order; what is checked in addition is that they name the height that is being
//! decided and that heights follow each other without a gap.

use std::fmt;
use std::str::FromStr;

/// Which method was called; the names are those of the recorded lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Info.
    Info,
    /// InitChain.
    InitChain,
    /// OfferSnapshot.
    OfferSnapshot,
    /// ApplySnapshotChunk.
    ApplySnapshotChunk,
    /// PrepareProposal.
    PrepareProposal,
    /// ProcessProposal.
    ProcessProposal,
    /// ExtendVote.
    ExtendVote,
    /// VerifyVoteExtension.
    VerifyVoteExtension,
    /// FinalizeBlock.
    FinalizeBlock,
    /// Commit.
    Commit,
}

const METHODS: [(Method, &str); 10] = [
    (Method::Info, "info"),
    (Method::InitChain, "init_chain"),
    (Method::OfferSnapshot, "offer_snapshot"),
    (Method::ApplySnapshotChunk, "apply_snapshot_chunk"),
    (Method::PrepareProposal, "prepare_proposal"),
    (Method::ProcessProposal, "process_proposal"),
    (Method::ExtendVote, "extend_vote"),
    (Method::VerifyVoteExtension, "verify_vote_extension"),
    (Method::FinalizeBlock, "finalize_block"),
    (Method::Commit, "commit"),
];

impl Method {
    /// The name in a recorded line.
    pub fn name(self) -> &'static str {
        METHODS[self as usize].1
    }
}

/// One recorded call. Its text form is `method height`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which method.
    pub method: Method,
    /// The request's height: the initial height of InitChain, the snapshot's of OfferSnapshot,
    /// that of the last FinalizeBlock for Commit; 0 where there is none.
    pub height: i64,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method.name(), self.height)
    }
}

/// A line is not a recorded call.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a recorded call: {line:?}")]
pub struct ParseCallError {
    /// The line.
    pub line: String,
}

impl FromStr for Call {
    type Err = ParseCallError;

    fn from_str(line: &str) -> Result<Self, ParseCallError> {
        let bad = || ParseCallError { line: line.to_owned() };
        let (name, height) = line.split_once(' ').ok_or_else(bad)?;
        let (method, _) = METHODS.into_iter().find(|(_, known)| *known == name).ok_or_else(bad)?;
        Ok(Self { method, height: height.parse().map_err(|_| bad())? })
    }
}

/// A call that the grammar does not allow at its place.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("call {index} ({call}) is not allowed {state}")]
pub struct GrammarError {
    /// Place of the call in the list, from 0.
    pub index: usize,
    /// The call.
    pub call: Call,
    /// What had been called until then.
    pub state: State,
}

/// How far an execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing was called.
    Start,
    /// Info was called: a handshake.
    Handshake,
    /// A snapshot was offered and no chunk of it applied.
    Offered,
    /// Chunks of the last offered snapshot were applied.
    Applied,
    /// A height is being decided; `None` as long as no call has told which.
    Deciding(Option<i64>),
    /// A block was finalized and is not committed.
    Finalized(i64),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Start => write!(f, "as the first call"),
            State::Handshake => write!(f, "after the handshake's info"),
            State::Offered => write!(f, "after offer_snapshot"),
            State::Applied => write!(f, "after apply_snapshot_chunk"),
            State::Deciding(None) => write!(f, "after the start, before the first height"),
            State::Deciding(Some(height)) => write!(f, "while height {height} is decided"),
            State::Finalized(height) => write!(f, "between finalize_block and commit of {height}"),
        }
    }
}

impl State {
    /// The state after a call, `None` if the call is not allowed.
    fn after(self, call: Call) -> Option<State> {
        let height = call.height;
        match (self, call.method) {
            (State::Start, Method::Info) => Some(State::Handshake),
            (State::Applied, Method::Info) => Some(State::Deciding(None)),
            (state, Method::Info) => Some(state),
            (State::Start | State::Offered | State::Applied, Method::OfferSnapshot) => {
                Some(State::Offered)
            }
            (State::Offered | State::Applied, Method::ApplySnapshotChunk) => Some(State::Applied),
            (State::Handshake, Method::InitChain) => Some(State::Deciding(Some(height))),
            // A node that state-syncs may be asked for Info over RPC before the first offer.
            (State::Handshake, Method::OfferSnapshot) => Some(State::Offered),
            (State::Handshake | State::Deciding(_), Method::FinalizeBlock) => {
                self.decides(height).then_some(State::Finalized(height))
            }
            (
                State::Handshake | State::Deciding(_),
                Method::PrepareProposal
                | Method::ProcessProposal
                | Method::ExtendVote
                | Method::VerifyVoteExtension,
            ) => self.decides(height).then_some(State::Deciding(Some(height))),
            (State::Finalized(finalized), Method::Commit) => {
                (height == finalized).then_some(State::Deciding(Some(height + 1)))
            }
            _ => None,
        }
    }

    fn decides(self, height: i64) -> bool {
        height > 0 && !matches!(self, State::Deciding(Some(current)) if current != height)
    }
}

/// Checks the calls of one process life, in the order in which they came.
///
/// # Errors
/// The first call that is not allowed at its place.
pub fn check(calls: &[Call]) -> Result<(), GrammarError> {
    let mut state = State::Start;
    for (index, &call) in calls.iter().enumerate() {
        state = state.after(call).ok_or(GrammarError { index, call, state })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(text: &str) -> Vec<Call> {
        text.split(',').map(|line| line.trim().parse().unwrap()).collect()
    }

    fn assert_good(text: &str) {
        let calls = calls(text);
        for end in 0..=calls.len() {
            check(&calls[..end]).unwrap();
        }
    }

    /// The last call, and only it, is refused.
    #[track_caller]
    fn assert_bad(text: &str) {
        let calls = calls(text);
        let error = check(&calls).unwrap_err();
        assert_eq!(error.index + 1, calls.len(), "{error}");
    }

    const CLEAN: &str = "info 0, init_chain 1, prepare_proposal 1, process_proposal 1, \
        verify_vote_extension 1, extend_vote 1, verify_vote_extension 1, finalize_block 1, \
        commit 1, process_proposal 2, extend_vote 2, finalize_block 2, commit 2";

    const SYNC: &str = "offer_snapshot 7, offer_snapshot 8, apply_snapshot_chunk 0, \
        offer_snapshot 9, apply_snapshot_chunk 0, apply_snapshot_chunk 0, info 0, \
        finalize_block 10, commit 10, finalize_block 11, commit 11, process_proposal 12";

    #[test]
    fn methods_are_listed_in_their_order() {
        for (index, (method, name)) in METHODS.into_iter().enumerate() {
            assert_eq!(method as usize, index);
            let call = Call { method, height: 7 };
            assert_eq!(call.to_string(), format!("{name} 7"));
            assert_eq!(call.to_string().parse(), Ok(call));
        }
        for bad in ["", "info", "info x", "check_tx 0", "info  1"] {
            assert!(bad.parse::<Call>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_clean_start_is_good() {
        assert_good(CLEAN);
    }

    #[test]
    fn recoveries_are_good() {
        // Replay, then a late round whose proposal was processed in the life before.
        assert_good("info 0, finalize_block 7, commit 7, extend_vote 8, finalize_block 8");
        assert_good("info 0, init_chain 1, finalize_block 1, commit 1");
        assert_good("info 0, verify_vote_extension 5, process_proposal 5, process_proposal 5");
    }

    #[test]
    fn state_sync_is_good() {
        assert_good(SYNC);
        assert_good(&format!("info 0, {SYNC}"));
    }

    #[test]
    fn info_is_good_any_time() {
        assert_good("info 0, info 0, init_chain 1, info 0, finalize_block 1, info 0, commit 1");
    }

    #[test]
    fn starts_without_a_handshake_are_bad() {
        assert_bad("init_chain 1");
        assert_bad("finalize_block 1");
        assert_bad("apply_snapshot_chunk 0");
        assert_bad("info 0, apply_snapshot_chunk 0");
        assert_bad("info 0, commit 0");
        assert_bad("info 0, init_chain 1, init_chain 1");
    }

    #[test]
    fn state_sync_without_chunks_or_info_is_bad() {
        assert_bad("offer_snapshot 8, info 0, process_proposal 9");
        assert_bad("offer_snapshot 8, apply_snapshot_chunk 0, finalize_block 9");
        assert_bad("offer_snapshot 8, apply_snapshot_chunk 0, info 0, init_chain 1");
        assert_bad(&format!("{SYNC}, offer_snapshot 13"));
        assert_bad(&format!("{CLEAN}, apply_snapshot_chunk 0"));
    }

    #[test]
    fn finalize_and_commit_are_paired() {
        assert_bad(&format!("{CLEAN}, commit 2"));
        assert_bad(&format!("{CLEAN}, finalize_block 3, finalize_block 3"));
        assert_bad(&format!("{CLEAN}, finalize_block 3, verify_vote_extension 3"));
        assert_bad(&format!("{CLEAN}, finalize_block 3, prepare_proposal 4"));
        assert_bad(&format!("{CLEAN}, finalize_block 3, commit 2"));
    }

    #[test]
    fn heights_follow_each_other() {
        assert_bad(&format!("{CLEAN}, finalize_block 4"));
        assert_bad(&format!("{CLEAN}, finalize_block 2"));
        assert_bad(&format!("{CLEAN}, prepare_proposal 4"));
        assert_bad(&format!("{CLEAN}, verify_vote_extension 2"));
        assert_bad("info 0, init_chain 5, finalize_block 1");
        assert_bad("info 0, extend_vote 0");
        assert_bad("info 0, process_proposal 5, finalize_block 6");
    }
}
