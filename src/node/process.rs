//! Child processes that end with this one.
//!
//! A child gets a signal when the thread that started it ends (`PR_SET_PDEATHSIG`): even `kill -9`
//! of the parent leaves no orphan. So children are started from the main thread only.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A started child.
#[derive(Debug)]
pub struct Process {
    /// Its name, for messages.
    pub name: String,
    child: Child,
}

/// How long a child may take to end after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks at a child.
const POLL: Duration = Duration::from_millis(20);

impl Process {
    /// Starts `command` with its output appended to `log`; `orphaned` is the signal that it gets
    /// when this process ends without stopping it.
    pub fn start(
        name: &str,
        mut command: Command,
        log: &Path,
        orphaned: Signal,
    ) -> io::Result<Self> {
        let out: File = OpenOptions::new().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        // A group of its own: ^C in a terminal reaches the parent alone, which stops its children
        // in order.
        command.process_group(0);
        // SAFETY: the closure makes one system call, which is safe between fork and exec.
        unsafe {
            command.pre_exec(move || {
                rustix::process::set_parent_process_death_signal(Some(orphaned))?;
                Ok(())
            });
        }
        Ok(Self { name: name.to_owned(), child: command.spawn()? })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks it to end, and kills it if it does not within ten seconds.
    pub fn stop(&mut self) {
        if self.ended().is_none() {
            terminate(self.pid());
            let deadline = Instant::now() + STOP_TIMEOUT;
            while self.ended().is_none() && Instant::now() < deadline {
                std::thread::sleep(POLL);
            }
        }
        if self.ended().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Sends SIGTERM to a process of this user; false if there is none.
pub fn terminate(pid: u32) -> bool {
    as_pid(pid).is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok())
}

/// Whether a process runs (a zombie does not).
pub fn runs(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the command's name, which is in parentheses and may hold anything.
    !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

fn as_pid(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}
