//! What a terminal notification says, what makes it well-formed, and the id that follows from its content.

use ring::digest::{SHA256, digest};

use super::canonical::{Object, Value, get};

pub(super) const SCHEMA: &str = "blun.cms-source-terminal-notification.v1";

/// In the order that the capability document advertises.
pub(super) const FIELDS: [&str; 12] = [
    "schema",
    "notification_id",
    "event_id",
    "site_id",
    "plan_id",
    "website_version",
    "source_sequence",
    "job_count",
    "change_sha256",
    "lifecycle_binding_sha256",
    "terminal_status",
    "lifecycle_sha256",
];

pub(super) const TERMINAL_STATUSES: [&str; 8] = [
    "cancelled",
    "deleted",
    "deletion_failed",
    "localization_failed",
    "publication_blocked",
    "publication_failed",
    "published",
    "superseded",
];

/// The statuses that end without a lifecycle to point to.
const WITHOUT_LIFECYCLE: [&str; 2] = ["cancelled", "superseded"];

const TOKEN_MOST: usize = 256;

/// A well-formed notification: what is stored of it beside its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notification {
    pub(super) notification_id: String,
    pub(super) event_id: String,
    pub(super) site_id: String,
    pub(super) terminal_status: String,
}

/// None where any field breaks its rule or the id does not follow from the rest. An object of exactly [`FIELDS`].
pub(super) fn read(object: &Object) -> Option<Notification> {
    let text = |name| get(object, name).and_then(Value::as_str);
    let token = |name| text(name).filter(|text| is_token(text));
    let digest = |name| text(name).filter(|text| is_sha256(text));
    text("schema").filter(|schema| *schema == SCHEMA)?;
    let (event_id, site_id) = (token("event_id")?, token("site_id")?);
    token("plan_id")?;
    token("website_version")?;
    get(object, "source_sequence").filter(|value| is_positive(value))?;
    get(object, "job_count").filter(|value| is_positive(value))?;
    digest("change_sha256")?;
    digest("lifecycle_binding_sha256")?;
    let terminal_status = text("terminal_status").filter(|status| TERMINAL_STATUSES.contains(status))?;
    match get(object, "lifecycle_sha256")? {
        Value::Null => WITHOUT_LIFECYCLE.contains(&terminal_status).then_some(())?,
        _ => digest("lifecycle_sha256").filter(|_| !WITHOUT_LIFECYCLE.contains(&terminal_status)).map(drop)?,
    }
    let notification_id = text("notification_id").filter(|id| derived_id(object).as_deref() == Some(*id))?;
    Some(Notification {
        notification_id: notification_id.to_owned(),
        event_id: event_id.to_owned(),
        site_id: site_id.to_owned(),
        terminal_status: terminal_status.to_owned(),
    })
}

/// Names the whole content but itself.
fn derived_id(object: &Object) -> Option<String> {
    let mut rest = object.clone();
    rest.retain(|name, _| name.as_str() != Some("notification_id"));
    Some(format!("terminal-{}", sha256(&Value::Object(rest).canonical()?)))
}

pub(super) fn is_token(text: &str) -> bool {
    (1..=TOKEN_MOST).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_positive(value: &Value) -> bool {
    matches!(value, Value::Integer(digits) if digits != "0" && !digits.starts_with('-'))
}

/// Lower-case hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    crate::hex::encode(digest(&SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests {
    use super::super::canonical::parse;
    use super::*;

    /// The worked example of the contract, section 5.
    const SOURCE: &str = concat!(
        r#"{"change_sha256":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","event_id":"cms-event-184","#,
        r#""job_count":23,"lifecycle_binding_sha256":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","#,
        r#""lifecycle_sha256":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","#,
        r#""plan_id":"plan-cms-event-184","schema":"blun.cms-source-terminal-notification.v1","site_id":"public-site","#,
        r#""source_sequence":42,"terminal_status":"published","website_version":"release-42"}"#
    );

    #[test]
    fn the_worked_example_has_its_id_and_digest() {
        let Value::Object(mut object) = parse(SOURCE.as_bytes()).unwrap() else { panic!("an object") };
        let id = derived_id(&object).unwrap();
        assert_eq!(id, "terminal-e35bf6ef539f765779fb89ede6ea8c1b93c80ae325649725fcdc7ceeb1abfdbd");
        object.insert("notification_id".into(), id.as_str().into());
        let body = Value::Object(object.clone()).canonical().unwrap();
        assert_eq!(sha256(&body), "469cab882853ca365897fc7bf6f679083f33b14476e3a8a65a7980b59bf4dddd");
        assert_eq!(read(&object).unwrap().notification_id, id);
        object.insert("job_count".into(), 24.into());
        assert_eq!(read(&object), None);
    }
}
