//! Takes log lines to stdout on a thread of its own, so that no delivery waits for whoever stores them, nor ends because they
//! cannot be stored: what finds no room is dropped and counted. Knows nothing of what a line says.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

use super::metrics;

/// Lines that may wait: a few seconds of a busy process, and a few MiB at most.
const ROOM: usize = 8192;
/// How long the end of the process waits for the last lines.
const LAST_WORDS: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

enum Word {
    Line(Vec<u8>),
    /// Answered when all before it was written.
    Mark(SyncSender<()>),
}

static QUEUE: OnceLock<SyncSender<Word>> = OnceLock::new();

/// Where a subscriber writes to, whole lines at once.
#[derive(Clone)]
pub(super) struct Lines(SyncSender<Word>);

impl Lines {
    pub(super) fn to_stdout() -> io::Result<Lines> {
        let (queue, words) = sync_channel(ROOM);
        thread::Builder::new().name("logs".into()).spawn(move || write(&words, io::stdout()))?;
        Ok(Lines(QUEUE.get_or_init(|| queue).clone()))
    }
}

fn write(words: &Receiver<Word>, mut out: impl Write) {
    for word in words {
        match word {
            Word::Line(line) => {
                if out.write_all(&line).and_then(|()| out.flush()).is_err() {
                    metrics::log_line_dropped();
                }
            }
            // Whoever waited may have given up.
            Word::Mark(written) => drop(written.try_send(())),
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.try_send(Word::Line(line.to_vec())).is_err() {
            metrics::log_line_dropped();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Lines;

    fn make_writer(&self) -> Lines {
        self.clone()
    }
}

/// Waits until everything that was logged is written, but for no reader that has stopped reading.
pub(super) fn flush() {
    let Some(queue) = QUEUE.get() else { return };
    let (mark, written) = sync_channel(1);
    let (mut word, ends) = (Word::Mark(mark), Instant::now() + LAST_WORDS);
    while let Err(TrySendError::Full(back)) = queue.try_send(word) {
        if Instant::now() >= ends {
            return;
        }
        word = back;
        thread::sleep(LOOK_AGAIN);
    }
    let _ = written.recv_timeout(ends.saturating_duration_since(Instant::now()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_finds_no_room_is_dropped_and_nobody_waits() {
        let (queue, words) = sync_channel(2);
        let mut lines = Lines(queue);
        for line in ["1\n", "2\n", "3\n"] {
            assert_eq!(lines.write(line.as_bytes()).unwrap(), 2);
        }
        drop(lines);
        let mut written = Vec::new();
        write(&words, &mut written);
        assert_eq!(written, b"1\n2\n");
    }

    #[test]
    fn a_line_that_cannot_be_written_does_not_keep_the_next_ones() {
        struct FullOnce(bool, Vec<u8>);
        impl Write for FullOnce {
            fn write(&mut self, line: &[u8]) -> io::Result<usize> {
                if std::mem::take(&mut self.0) {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                self.1.extend(line);
                Ok(line.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (queue, words) = sync_channel(2);
        let mut lines = Lines(queue);
        lines.write_all(b"1\n").unwrap();
        lines.write_all(b"2\n").unwrap();
        drop(lines);
        let mut out = FullOnce(true, Vec::new());
        write(&words, &mut out);
        assert_eq!(out.1, b"2\n");
    }
}
