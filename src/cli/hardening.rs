//! Keeps the memory of this process from files and from other processes of its user. It wipes nothing: secrets do so
//! themselves when they are dropped.

use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};

use super::Failure;

/// Before anything is read. Each covers what the other leaves: a core that is piped to a program pays no heed to the
/// limit, and a process becomes dumpable again when it runs another. Being not dumpable also takes `/proc/PID/mem`,
/// `environ` and the like, and `ptrace`, from all but root.
pub(super) fn harden() -> Result<(), Failure> {
    let refused = |what: &str, errno: nix::errno::Errno| Failure::system(format!("cannot {what}: {}", errno.desc()));
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(|errno| refused("switch core dumps off", errno))?;
    set_dumpable(false).map_err(|errno| refused("close the process's memory to others", errno))
}
