//! Admits, verifies, orders and bounds pending transfers.
