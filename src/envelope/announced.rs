//! What a payload announces: the few members by which a history of attempts must name it. Only texts of the protocol's own form
//! are taken, so that nothing else of a body gets any further.

use super::json::{Member, Path};

/// Where they stand in a body. What announces a delivery report stands in its result.
pub(super) const ANNOUNCED: [Path; 4] =
    [&["notification_id"], &["notification_type"], &["result", "notification_type"], &["result", "sequence_number"]];
/// The same in a result alone.
pub(super) const IN_RESULT: [Path; 2] = [&["result", "notification_type"], &["result", "sequence_number"]];
pub(super) const RESULT: &str = "result";

const LONGEST_ID: usize = 255;
const LONGEST_TYPE: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) notification_type: Option<String>,
    pub(crate) notification_id: Option<String>,
    pub(crate) sequence_number: Option<i64>,
}

impl Announced {
    pub(super) fn of_body(members: &[Member<'_>; 4]) -> Announced {
        let [id, at_top, in_result, sequence] = members;
        Announced {
            notification_type: text(at_top, LONGEST_TYPE, b"_.").or_else(|| text(in_result, LONGEST_TYPE, b"_.")),
            notification_id: text(id, LONGEST_ID, b"_.:-"),
            sequence_number: number(sequence),
        }
    }

    pub(super) fn of_result(members: &[Member<'_>; 2], notification_id: Option<String>) -> Announced {
        let [notification_type, sequence] = members;
        Announced {
            notification_type: text(notification_type, LONGEST_TYPE, b"_."),
            notification_id,
            sequence_number: number(sequence),
        }
    }
}

fn text(member: &Member<'_>, longest: usize, besides: &[u8]) -> Option<String> {
    let Member::Text(text) = member else { return None };
    let proper = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || besides.contains(&byte));
    (proper && (1..=longest).contains(&text.len())).then(|| (**text).to_owned())
}

fn number(member: &Member<'_>) -> Option<i64> {
    match member {
        Member::Integer(number) => i64::try_from(*number).ok(),
        _ => None,
    }
}
