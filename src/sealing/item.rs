//! One thing to seal, read from the JSON of a host. Strict: an unknown member is a slip that would be lost under the
//! seal. It judges shapes and texts; envelopes and URLs are judged by those who will open and post them.

use serde::Deserialize;
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use super::bytes::from_base64;
use super::fault::ItemFault;
use super::object::Object;

/// What a host wants sealed. All of it may be secret.
pub(super) enum Item {
    Registration(Box<Registration>),
    Delivery(Box<Delivery>),
}

/// The columns that both kinds are bound to.
pub(super) struct Task {
    pub(super) account_id: String,
    pub(super) task_id: String,
    pub(super) task_type: String,
}

pub(super) struct Registration {
    pub(super) task: Task,
    pub(super) url: String,
    pub(super) operation_id: String,
    pub(super) token: Option<Zeroizing<String>>,
    pub(super) authentication: Option<Authentication>,
    pub(super) signing_scope_id: Option<String>,
}

pub(super) struct Delivery {
    pub(super) task: Task,
    pub(super) terminal_status: String,
    pub(super) url: String,
    pub(super) operation_id: String,
    pub(super) idempotency_key: String,
    pub(super) signing_scope_id: Option<String>,
    pub(super) authentication: Option<Authentication>,
    pub(super) body: Zeroizing<Vec<u8>>,
}

pub(super) struct Authentication {
    pub(super) scheme: String,
    pub(super) credentials: Zeroizing<String>,
}

/// The echoed token's bounds in the payload, in characters (wire contract, section 7.2): with any other, the task could
/// not be completed.
const TOKEN: std::ops::RangeInclusive<usize> = 16..=4096;

impl Item {
    pub(super) fn read(json: &RawValue) -> Result<Item, ItemFault> {
        let mut object = Object::read(json)?;
        let kind = object.text("kind")?;
        let task = Task {
            account_id: object.text("account_id")?,
            task_id: object.text("task_id")?,
            task_type: object.text("task_type")?,
        };
        check_task(&task)?;
        let item = match kind.as_str() {
            "registration" => Item::Registration(Box::new(registration(task, &mut object)?)),
            "delivery" => Item::Delivery(Box::new(delivery(task, &mut object)?)),
            _ => return Err(ItemFault::Member { member: "kind", problem: "is neither registration nor delivery" }),
        };
        object.end()?;
        Ok(item)
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Item::Registration(_) => "registration",
            Item::Delivery(_) => "delivery",
        }
    }
}

fn registration(task: Task, object: &mut Object<'_>) -> Result<Registration, ItemFault> {
    // The payload names each event `<task_id>.terminal`, within 255 of these characters.
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if task.task_id.len() > 246 || !task.task_id.chars().all(fits) {
        return Err(ItemFault::Member { member: "task_id", problem: "is not 1 to 246 of A-Z a-z 0-9 _ . : -" });
    }
    let operation_id = object.text("operation_id")?;
    if operation_id.is_empty() {
        return Err(ItemFault::Member { member: "operation_id", problem: "is empty" });
    }
    let token = object.secret("token")?;
    if token.as_ref().is_some_and(|token| !TOKEN.contains(&token.chars().count())) {
        return Err(ItemFault::Member { member: "token", problem: "does not have 16 to 4096 characters" });
    }
    Ok(Registration {
        task,
        url: object.text("url")?,
        operation_id,
        token,
        authentication: authentication(object)?,
        signing_scope_id: object.optional_text("signing_scope_id")?,
    })
}

fn delivery(task: Task, object: &mut Object<'_>) -> Result<Delivery, ItemFault> {
    let terminal_status = object.text("terminal_status")?;
    if !["completed", "failed"].contains(&terminal_status.as_str()) {
        return Err(ItemFault::Member { member: "terminal_status", problem: "is neither completed nor failed" });
    }
    Ok(Delivery {
        task,
        terminal_status,
        url: object.text("url")?,
        operation_id: object.text("operation_id")?,
        idempotency_key: object.text("idempotency_key")?,
        signing_scope_id: object.optional_text("signing_scope_id")?,
        authentication: authentication(object)?,
        body: body(object)?,
    })
}

/// As an object, its own spelling; as a string, the string's content; or base64 of the bytes.
fn body(object: &mut Object<'_>) -> Result<Zeroizing<Vec<u8>>, ItemFault> {
    let given = object.take("body").filter(|json| json.get() != "null");
    match (given, object.secret("body_base64")?) {
        (Some(body), None) if body.get().starts_with('{') => Ok(Zeroizing::new(body.get().as_bytes().to_vec())),
        (Some(body), None) => match String::deserialize(body) {
            Ok(text) => Ok(Zeroizing::new(text.into_bytes())),
            Err(_) => Err(ItemFault::Member { member: "body", problem: "is neither an object nor a string" }),
        },
        (None, Some(text)) => from_base64(&text)
            .ok_or(ItemFault::Member { member: "body_base64", problem: "is not standard base64 with padding" }),
        (Some(_), Some(_)) => Err(ItemFault::Member { member: "body_base64", problem: "stands beside body" }),
        (None, None) => Err(ItemFault::Member { member: "body", problem: "is missing, and so is body_base64" }),
    }
}

fn authentication(object: &mut Object<'_>) -> Result<Option<Authentication>, ItemFault> {
    let Some(json) = object.take("authentication").filter(|json| json.get() != "null") else { return Ok(None) };
    let mut inner = Object::read(json).map_err(|_| ItemFault::Member {
        member: "authentication",
        problem: "is not an object of scheme and credentials",
    })?;
    let scheme = inner.text("scheme")?;
    let credentials =
        inner.secret("credentials")?.ok_or(ItemFault::Member { member: "credentials", problem: "is missing" })?;
    inner.end()?;
    Ok(Some(Authentication { scheme, credentials }))
}

fn check_task(task: &Task) -> Result<(), ItemFault> {
    if task.account_id.trim().is_empty() || task.account_id == "<unset>" {
        return Err(ItemFault::Member { member: "account_id", problem: "is blank" });
    }
    for (member, text) in [("task_id", &task.task_id), ("task_type", &task.task_type)] {
        if text.is_empty() {
            return Err(ItemFault::Member { member, problem: "is empty" });
        }
    }
    Ok(())
}
