//! Decides what one block does to the state: a pure transition over a read view.
