//! The exit game twice: a reference model and the real contract, told the same calls.
//!
//! `Referee` plays each call on both and compares what they answer and the state after it;
//! `play_file` plays scenario files on the contract alone.

mod calls;
mod contract;
mod model;
mod referee;
mod scenario;

pub use calls::{Call, Consent, ExitStart, PlasmaBlock, Refusal, Shown, Submission, Tx};
pub use contract::{CHAIN_ID, Contract, IRootChain, PURSE, RootChain, Validators, genesis};
pub use model::{CoinGame, Exit, ExitState, Model, Params, Rules, Status};
pub use referee::{Referee, used_key};
pub use scenario::{FileError, Report, play_file};
