//! A hand-over to a program: the message on its standard input, its exit code for an answer. What it prints is not read.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::outcome::Outcome;
use crate::store::Message;

pub(super) struct Program {
    program: String,
    arguments: Vec<String>,
}

impl Program {
    pub(super) fn new(program: &str, arguments: &[String]) -> Program {
        Program { program: program.to_owned(), arguments: arguments.to_vec() }
    }

    /// Dropping the future kills the program.
    pub(super) async fn run(&self, message: &Message) -> Outcome {
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .env("OUTBOXD_SENDER", &message.sender)
            .env("OUTBOXD_IDEMPOTENCY_KEY", &message.idempotency_key)
            .env("OUTBOXD_ATTEMPT", message.attempt.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let Ok(mut child) = child else { return Outcome::Retry("forward_not_started".into()) };
        if let Some(mut stdin) = child.stdin.take() {
            // A program that has read enough may close it; its exit code says what it made of that.
            let _ = stdin.write_all(&message.body).await;
        }
        match child.wait().await {
            Ok(status) => Outcome::of_exit(status),
            Err(_) => Outcome::Retry("forward_not_awaited".into()),
        }
    }
}
