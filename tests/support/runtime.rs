//! What must outlive every single test: one tokio runtime for servers, and one thread that starts processes.
//! It deliberately offers no way to end either; both end with the test binary.

use std::io;
use std::process::{Child, Command};
use std::sync::{LazyLock, Mutex, mpsc};
use std::thread;

use tokio::runtime::Runtime;

/// Receivers and database connections run here and not on a test's own runtime, so that a test that is busy
/// asserting never makes a receiver look slow.
pub fn servers() -> &'static Runtime {
    static SERVERS: LazyLock<Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .thread_name("servers")
            .build()
            .expect("a runtime can be built")
    });
    &SERVERS
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts a process that the kernel kills when this test binary ends, however it ends.
///
/// The death signal fires when the *thread* that forked ends, and libtest's threads end with their test, so
/// one thread that never ends does all the forking. `setpriv` sets the signal, which needs no unsafe code.
pub fn spawn(program: &Command) -> io::Result<Child> {
    static ORDERS: LazyLock<Mutex<mpsc::Sender<Order>>> = LazyLock::new(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in inbox {
                // The asker is waiting; were it gone, the child would be dropped and left to the signal.
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    let (reply, child) = mpsc::channel();
    ORDERS.lock().expect("the lock is held for one send only").send((command, reply)).map_err(io::Error::other)?;
    child.recv().map_err(io::Error::other)?
}
