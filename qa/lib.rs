//! Load runner and measurements.
