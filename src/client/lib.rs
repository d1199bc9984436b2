//! Talks to a node and checks what it is told.
