//! Processes that are measured: started so that they end with us, and asked of the kernel for time and memory.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::ops::Sub;
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::support::runtime;

/// Of what a process says, this is kept for when it fails.
const LINES_KEPT: usize = 20;

/// A process of ours; it ends with this value.
pub struct Process {
    name: String,
    child: Child,
    said: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    /// This program in another role.
    pub fn ourselves(role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("a program has a path"));
        command.arg(role);
        command
    }

    pub fn start(name: &str, command: &Command) -> Process {
        let (process, _, output) = Process::talking(name, command);
        process.keep(output);
        process
    }

    /// One that takes orders on its standard input.
    pub fn talking(name: &str, command: &Command) -> (Process, ChildStdin, BufReader<ChildStdout>) {
        let mut child = runtime::spawn(command).unwrap_or_else(|error| panic!("{name}: {error}"));
        let orders = child.stdin.take().expect("stdin is piped");
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let errors = child.stderr.take().expect("stderr is piped");
        let process = Process { name: name.into(), child, said: Arc::default() };
        process.keep(errors);
        (process, orders, output)
    }

    /// A full pipe would stop whoever writes to it.
    fn keep(&self, output: impl Read + Send + 'static) {
        let said = Arc::clone(&self.said);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let mut said = said.lock().expect("no holder panics");
                if said.len() == LINES_KEPT {
                    said.pop_front();
                }
                said.push_back(line);
            }
        });
    }

    pub fn said(&self) -> String {
        let said = self.said.lock().expect("no holder panics");
        said.iter().map(|line| format!("{}: {line}\n", self.name)).collect()
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().expect("it is our child") {
            panic!("{} ended: {status}\n{}", self.name, self.said());
        }
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(mut self) {
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGTERM);
        self.child.wait().expect("it is our child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time, user and system, in all threads.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Cpu(pub Duration);

impl Cpu {
    pub fn of(pid: i32) -> Cpu {
        stat(pid).map_or(Cpu::default(), |stat| ticks(stat.own))
    }

    /// Of a process, its children, and those of them that have ended: a Postgres server with all its backends.
    pub fn of_family(parent: i32) -> Cpu {
        let Some(head) = stat(parent) else { return Cpu::default() };
        let processes = fs::read_dir("/proc").expect("this is Linux").flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let children = pids.filter_map(stat).filter(|stat| stat.parent == parent).map(|stat| stat.own);
        ticks(head.own + head.ended + children.sum::<u64>())
    }

    /// Of the whole machine, but for what waits for disks.
    pub fn of_all() -> Cpu {
        let text = fs::read_to_string("/proc/stat").expect("this is Linux");
        let line = text.lines().next().unwrap_or_default();
        let columns: Vec<u64> = line.split_whitespace().skip(1).filter_map(|number| number.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; the rest is counted in these.
        ticks(columns.iter().take(8).enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, ticks)| ticks).sum())
    }

    pub fn seconds(self) -> f64 {
        self.0.as_secs_f64()
    }
}

impl Sub for Cpu {
    type Output = Cpu;

    fn sub(self, earlier: Cpu) -> Cpu {
        Cpu(self.0.saturating_sub(earlier.0))
    }
}

impl std::iter::Sum for Cpu {
    fn sum<I: Iterator<Item = Cpu>>(all: I) -> Cpu {
        Cpu(all.map(|one| one.0).sum())
    }
}

/// The most memory that it ever held, in bytes.
pub fn peak_memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kilobytes| kilobytes << 10)
}

/// Neither gone nor a zombie.
pub fn is_running(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| stat.state != 'Z')
}

struct Stat {
    state: char,
    parent: i32,
    /// In ticks, of its own and of its children that have ended.
    own: u64,
    ended: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may hold anything but ends with the last bracket; what follows begins with the third field.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let (own, ended) = (number(14)? + number(15)?, number(16)? + number(17)?);
    let state = fields.first()?.chars().next()?;
    Some(Stat { state, parent: fields.get(1)?.parse().ok()?, own, ended })
}

/// USER_HZ is 100 on every architecture that we build for.
fn ticks(count: u64) -> Cpu {
    Cpu(Duration::from_millis(count * 10))
}
