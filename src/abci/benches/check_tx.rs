//! Measures the rate of CheckTx and the time of a large FinalizeBlock over a unix socket.

fn main() {}
