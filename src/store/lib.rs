//! Versioned, authenticated key-values on disk. Knows nothing of coins.
