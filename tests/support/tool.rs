//! A command that reads standard input and ends by itself, its two output streams told apart.

use std::io::Write;
use std::process::Command;
use std::thread;

use super::config::Config;
use super::runtime;

#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Any subcommand with this configuration.
pub async fn outboxd(config: &Config, arguments: &[&str], input: impl Into<Vec<u8>>) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outboxd"));
    command.args(arguments).arg("--config").arg(config.write());
    command.env_remove("OUTBOXD_DATABASE__URL").env("NO_COLOR", "1");
    command.envs(config.environment.iter().map(|(name, value)| (name, value)));
    run(command, input).await
}

pub async fn run(command: Command, input: impl Into<Vec<u8>>) -> Done {
    let input = input.into();
    // Waiting blocks; a test's own runtime must go on meanwhile.
    let waiting = tokio::task::spawn_blocking(move || {
        let mut child = runtime::spawn(&command).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // A command may end without reading all that it was given.
        let writer = thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("it is our child");
        writer.join().expect("writing does not panic");
        output
    });
    let output = waiting.await.expect("waiting does not panic");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("what is printed is text");
    Done { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}
