//! Black-box tests over real processes.
