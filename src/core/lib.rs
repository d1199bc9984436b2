//! What a coin, transfer, plasma block, proof and exit are: bytes, hashes, signatures and rules.
