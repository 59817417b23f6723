//! What must hold of everything that a receiver may say: the exchange ends, the status is the one on the wire, and no
//! request is answered by bytes that were sent before it.

use std::sync::LazyLock;

use bytes::Bytes;
use tokio::time::Instant;

use crate::post::rehearsal::{IMPATIENCE, Outcome, PATIENCE, Script, rehearse};
use crate::secret::Secret;
use crate::signature::{Moment, Scheme, SignedRequest, Target, sign};
use crate::verdict::retry_after::MAX_HINT;
use crate::verdict::{Attempt, Fault, Sent, StatusPolicy, classify};

thread_local! {
    static RUNTIME: tokio::runtime::Runtime = {
        // One thread, so that an input always takes the same turns.
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time();
        // A clock that jumps to the next deadline when nobody has anything to do: silence then takes no time.
        #[cfg(fuzzing)]
        builder.start_paused(true);
        builder.build().expect("a runtime")
    };
}

fn request(body: &'static [u8]) -> SignedRequest {
    let target = Target::parse("https://hooks.example.com/adcp").expect("a URL");
    let secret = Secret::from("credentials".to_owned());
    let moment = Moment { unix_seconds: 1_767_322_800, nonce: [7; 16] };
    sign(Scheme::Bearer(&secret), &target, Bytes::from_static(body), moment).expect("a request")
}

static SHORT: LazyLock<SignedRequest> = LazyLock::new(|| request(b"{}"));
/// Does not fit into the buffers between a client and a receiver that does not read.
static LONG: LazyLock<SignedRequest> = LazyLock::new(|| request(&[b' '; 16 << 10]));

/// `B` and `C`, and no other: each has to be waited for.
const SILENT: u8 = b'C';

/// The first byte says how the receiver behaves, the rest is what it says.
pub(super) fn check(data: &[u8]) {
    let Some((&manner, says)) = data.split_first() else { return };
    let says = &says[..says.len().min(256 << 10)];
    let piece = [usize::MAX, 1 + says.len() / 16, 1 + says.len() / 3, 1][usize::from(manner >> 2 & 3)];
    // Byte by byte is for short ones.
    let piece = if piece == 1 { 1 + says.len() / 256 } else { piece };
    let script = Script { says: says.to_vec(), piece, early: manner & 1 != 0, silent: manner | 1 == SILENT };
    let deadline = if script.silent { IMPATIENCE } else { PATIENCE };
    let sent = if script.early { &*LONG } else { &*SHORT };
    let outcome = RUNTIME
        .with(|runtime| runtime.block_on(async { rehearse(script.clone(), sent, Instant::now() + deadline).await }));
    judge(says, &script, &outcome);
}

fn judge(says: &[u8], script: &Script, outcome: &Outcome) {
    if let Some(Attempt::Replied(reply)) = &outcome.second {
        panic!("status {} to a request that was not answered", reply.status);
    }
    match &outcome.attempt {
        Attempt::Replied(reply) => {
            assert_eq!(Some(reply.status), status(says), "another status than on the wire");
            assert!(reply.retry_after.is_none_or(|hint| hint <= MAX_HINT));
            assert!(!reply.request_sent || outcome.was_read, "it was not read");
            assert!(!(script.early && outcome.kept), "a connection is kept that still carries a request");
            if let Some(challenge) = reply.challenge {
                let code = challenge.code().as_bytes();
                assert!(says.windows(code.len()).any(|window| window == code), "{challenge:?} from nothing");
            }
        }
        Attempt::Failed(failure) => {
            assert!(script.silent || failure.fault != Fault::ReplyTimeout, "it ended, and yet was waited for");
            assert!(!matches!(failure.fault, Fault::LocalResources | Fault::Tls | Fault::TlsCertificate));
            // Where the deadline is short, a busy machine may not even have got as far as to write.
            assert!(script.silent || failure.sent == Sent::Perhaps, "the receiver had the head");
        }
    }
    // By the table, whatever it was, and a success only of a 2xx to a request that was sent.
    let (class, cause) = classify(&outcome.attempt, StatusPolicy::Default);
    let good = matches!(&outcome.attempt, Attempt::Replied(reply) if reply.request_sent && reply.status / 100 == 2);
    assert_eq!(cause.code() == "delivered", good, "{class:?}");
}

/// Read afresh, by another reading of RFC 9112: the status of the first head that is not interim.
fn status(says: &[u8]) -> Option<u16> {
    let mut lines = says.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    loop {
        let line = lines.by_ref().find(|line| !line.is_empty())?;
        let rest = line.strip_prefix(b"HTTP/1.")?.strip_prefix(b"1 ").or(line.strip_prefix(b"HTTP/1.0 "))?;
        let digits = rest.get(..3)?;
        let status: u16 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        if !(100..200).contains(&status) || status == 101 {
            return Some(status);
        }
        lines.by_ref().find(|line| line.is_empty())?;
    }
}
