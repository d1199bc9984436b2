//! SIGINT and SIGTERM as a flag.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Whether one of the signals has come.
#[derive(Debug, Clone)]
pub struct Signals(Arc<AtomicBool>);

impl Signals {
    /// Starts listening. A second signal ends the process at once.
    pub fn install() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Self(flag))
    }

    /// Whether a signal has come.
    pub fn received(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
