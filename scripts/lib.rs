//! Repository tasks: tidy, generators.
