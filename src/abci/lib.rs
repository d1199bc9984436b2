//! Speaks ABCI 2.0 on a socket and moves blocks between consensus, ledger and store.
