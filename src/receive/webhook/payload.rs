//! What of a payload the inbox needs: that it is strict JSON, its idempotency key, its hash, and what it says about the
//! end of a task. Everything else is for the host to judge: it may know members and task types that we do not.

use super::canonical::{Canonical, hash};
use super::refusal::Refusal;
use crate::envelope::JsonFault;
use crate::envelope::json::{self, Member};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) idempotency_key: String,
    pub(super) sha256: [u8; 32],
    /// Hashes of the task's id and of what is said about its end.
    pub(super) observation: Option<([u8; 32], [u8; 32])>,
}

/// Statuses that end a task.
const TERMINAL: [&str; 4] = ["completed", "failed", "canceled", "rejected"];
/// What two deliveries that tell of the same end have in common, whatever message and time they give with it. In the
/// order of the canonical form.
const ARTIFACT: [&str; 7] = ["notification_id", "operation_id", "protocol", "result", "status", "task_id", "task_type"];

pub(super) fn read(body: &[u8]) -> Result<Payload, Refusal> {
    let members = json::read(body, [&["idempotency_key"], &["status"], &["task_id"]]);
    let [key, status, task] = match members {
        Ok(Some(members)) => members,
        Ok(None) | Err(JsonFault::Syntax | JsonFault::DuplicateKey) => return Err(Refusal::BodyInvalidJson),
        Err(JsonFault::TooDeep) => return Err(Refusal::NotIJson),
    };
    let key = match &key {
        Member::Text(text) if !text.is_empty() => text.to_string(),
        _ => return Err(Refusal::KeyMissing),
    };
    if !is_key(&key) {
        return Err(Refusal::KeyInvalid);
    }
    let canonical = Canonical::of(body).map_err(|_| Refusal::NotIJson)?;
    let observation = match (&status, &task) {
        (Member::Text(status), Member::Text(task)) if TERMINAL.contains(&&**status) && !task.is_empty() => {
            Some((hash([task.as_bytes()]), canonical.sha256_of(&ARTIFACT)))
        }
        _ => None,
    };
    Ok(Payload { idempotency_key: key, sha256: canonical.sha256(), observation })
}

/// `^[A-Za-z0-9_.:-]{16,255}$` (wire contract, section 7.1).
fn is_key(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
    (16..=255).contains(&text.len()) && text.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(members: &str) -> Result<Payload, Refusal> {
        read(format!(r#"{{"idempotency_key":"whk_0123456789abcdef"{members}}}"#).as_bytes())
    }

    #[test]
    fn each_fault_has_its_code_in_the_order_of_the_contract() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(101), "}".repeat(101));
        let long = format!(r#"{{"idempotency_key":"{}"}}"#, "k".repeat(256));
        for (body, refusal) in [
            ("", Refusal::BodyInvalidJson),
            ("[]", Refusal::BodyInvalidJson),
            ("{} x", Refusal::BodyInvalidJson),
            (r#"{"a":1,"a":1}"#, Refusal::BodyInvalidJson),
            (r#"{"a":{"b":1,"\u0062":1}}"#, Refusal::BodyInvalidJson),
            (r#"{"a":NaN}"#, Refusal::BodyInvalidJson),
            ("\u{feff}{}", Refusal::BodyInvalidJson),
            (r#"{"a":"\ud800"}"#, Refusal::BodyInvalidJson),
            (deep.as_str(), Refusal::NotIJson),
            ("{}", Refusal::KeyMissing),
            (r#"{"idempotency_key":7}"#, Refusal::KeyMissing),
            (r#"{"idempotency_key":""}"#, Refusal::KeyMissing),
            (r#"{"idempotency_key":"short"}"#, Refusal::KeyInvalid),
            (r#"{"idempotency_key":"whk_0123456789abcde\u00e9"}"#, Refusal::KeyInvalid),
            (long.as_str(), Refusal::KeyInvalid),
        ] {
            assert_eq!(read(body.as_bytes()), Err(refusal), "{body}");
        }
        assert_eq!(with(r#","n":9007199254740993"#), Err(Refusal::NotIJson));
        // Key faults come before number faults.
        assert_eq!(read(br#"{"n":9007199254740993}"#), Err(Refusal::KeyMissing));
    }

    #[test]
    fn only_a_terminal_status_of_a_named_task_is_an_observation() {
        for (members, expected) in [
            ("", false),
            (r#","status":"completed""#, false),
            (r#","status":"completed","task_id":"""#, false),
            (r#","status":"completed","task_id":7"#, false),
            (r#","status":"working","task_id":"t""#, false),
            (r#","status":"completed","task_id":"t""#, true),
            (r#","status":"rejected","task_id":"t""#, true),
        ] {
            assert_eq!(with(members).unwrap().observation.is_some(), expected, "{members}");
        }
    }

    #[test]
    fn message_and_time_are_no_part_of_the_end_of_a_task_but_its_result_is() {
        let end = |members: &str| with(&format!(r#","task_id":"t","status":"completed"{members}"#)).unwrap();
        let first = end(r#","timestamp":"2026-01-01T00:00:00Z","result":{"a":1,"b":2}"#);
        let again = end(r#","message":"done","timestamp":"2026-01-02T00:00:00Z","result":{"b":2.0,"a":1}"#);
        let other = end(r#","result":{"a":1,"b":3}"#);
        assert_eq!(first.observation, again.observation);
        assert_ne!(first.sha256, again.sha256);
        assert_ne!(first.observation, other.observation);
    }
}
