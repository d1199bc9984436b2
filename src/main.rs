//! The `plasma` binary; everything it does lives in `plasma-node`.

use std::process::ExitCode;

fn main() -> ExitCode {
    plasma_node::run()
}
