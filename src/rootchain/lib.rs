//! Contract bindings, the finality-aware event follower and the relayer.
