//! Configuration, services and commands of the plasma binary.
