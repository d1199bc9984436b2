//! Fakes of the outside world and generators for tests.
