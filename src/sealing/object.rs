//! One JSON object, taken apart member by member. No fault shows a value, and none of a name but what is plainly a name.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use super::fault::ItemFault;

/// The members that nobody has taken yet.
pub(super) struct Object<'a> {
    members: Vec<(String, &'a RawValue)>,
}

struct Members;

impl<'a> Visitor<'a> for Members {
    type Value = Vec<(String, &'a RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

impl<'a> Object<'a> {
    pub(super) fn read(json: &'a RawValue) -> Result<Object<'a>, ItemFault> {
        let members = json.deserialize_map(Members).map_err(|_| ItemFault::NotAnObject)?;
        for (nth, (name, _)) in members.iter().enumerate() {
            if members[..nth].iter().any(|(earlier, _)| earlier == name) {
                return Err(ItemFault::Repeated { name: plain(name) });
            }
        }
        Ok(Object { members })
    }

    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.members.iter().position(|(member, _)| member == name)?;
        Some(self.members.swap_remove(at).1)
    }

    pub(super) fn text(&mut self, member: &'static str) -> Result<String, ItemFault> {
        self.optional_text(member)?.ok_or(ItemFault::Member { member, problem: "is missing" })
    }

    /// Absent and null are the same.
    pub(super) fn optional_text(&mut self, member: &'static str) -> Result<Option<String>, ItemFault> {
        Ok(self.secret(member)?.map(|mut text| std::mem::take(&mut *text)))
    }

    pub(super) fn secret(&mut self, member: &'static str) -> Result<Option<Zeroizing<String>>, ItemFault> {
        let Some(json) = self.take(member) else { return Ok(None) };
        let text: Option<String> =
            serde_json::from_str(json.get()).map_err(|_| ItemFault::Member { member, problem: "is not a string" })?;
        let text = text.map(Zeroizing::new);
        // Postgres stores no text with it, so that no row could match.
        if text.as_ref().is_some_and(|text| text.contains('\0')) {
            return Err(ItemFault::Member { member, problem: "holds a NUL character" });
        }
        Ok(text)
    }

    /// Refuses what is left.
    pub(super) fn end(self) -> Result<(), ItemFault> {
        match self.members.first() {
            Some((name, _)) => Err(ItemFault::Unknown { name: plain(name) }),
            None => Ok(()),
        }
    }
}

/// A name that may be shown: one of letters, as members have, and not a value that slipped into its place.
fn plain(name: &str) -> Option<String> {
    let is_word = name.len() <= 40 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_word.then(|| name.to_owned())
}
