//! A strict look at JSON in one pass: it checks everything, keeps only the members that the caller names, and never
//! builds the document.
//!
//! Accepted is what a strict receiver accepts: UTF-8 without byte order mark, no key twice in an object, no NaN, no
//! lone surrogate, at most [`MAX_DEPTH`] levels. Integers of any length that a double can approximate pass (the bytes
//! are delivered as they are); a number beyond a double's range, such as `1e999`, does not: the reference's receiver
//! refuses it, and the canonical form by which receivers compare payloads (RFC 8785) cannot express it.
//!
//! What is kept of the document is wiped when dropped; an escaped string also passes through serde_json's scratch
//! buffer, which is not.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use zeroize::Zeroizing;

use super::error::JsonFault;

/// The wire contract, section 7.3. serde_json's own limit is 128, so this one is met first.
pub(crate) const MAX_DEPTH: usize = 100;

/// Where a wanted member stands: at the top, or inside a top-level object.
pub(crate) type Path = &'static [&'static str];

/// What a wanted member turned out to be.
#[derive(Default)]
pub(crate) enum Member<'a> {
    #[default]
    Absent,
    Null,
    Text(Text<'a>),
    Integer(u64),
    Object,
    Other,
}

/// A string of the document: a slice of it, or, where it was escaped, a copy that is wiped when dropped.
pub(crate) enum Text<'a> {
    Slice(&'a str),
    Copied(Zeroizing<String>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Slice(text) => text,
            Text::Copied(text) => text,
        }
    }
}

/// Checks the document. `Some` has a member for each path where the document is an object.
pub(crate) fn read<'a, const N: usize>(
    document: &'a [u8],
    paths: [Path; N],
) -> Result<Option<[Member<'a>; N]>, JsonFault> {
    read_at(1, None, document, paths)
}

/// The same of a document that is to stand as the member `within` of another, one level deeper; so do the paths begin with it.
pub(super) fn read_nested<'a, const N: usize>(
    within: &'static str,
    document: &'a [u8],
    paths: [Path; N],
) -> Result<Option<[Member<'a>; N]>, JsonFault> {
    read_at(2, Some(within), document, paths)
}

fn read_at<'a, const N: usize>(
    depth: usize,
    within: Option<&'static str>,
    document: &'a [u8],
    paths: [Path; N],
) -> Result<Option<[Member<'a>; N]>, JsonFault> {
    let mut found = [const { Member::Absent }; N];
    let mut reader = Reader { paths: &paths, found: &mut found, fault: None };
    let mut deserializer = serde_json::Deserializer::from_slice(document);
    let root = Value { reader: &mut reader, depth, within, keep: false };
    let outcome = root.deserialize(&mut deserializer).and_then(|root| deserializer.end().map(|()| root));
    match outcome {
        Ok(Member::Object) => Ok(Some(found)),
        Ok(_) => Ok(None),
        Err(_) => Err(reader.fault.unwrap_or(JsonFault::Syntax)),
    }
}

struct Reader<'r, 'a> {
    paths: &'r [Path],
    found: &'r mut [Member<'a>],
    /// Which rule of ours ended the pass; a serde error cannot carry it.
    fault: Option<JsonFault>,
}

impl Reader<'_, '_> {
    /// The wanted path that `key` completes, in an object at `depth` that is itself the top-level member `within`.
    fn wanted(&self, depth: usize, within: Option<&'static str>, key: &str) -> Option<usize> {
        self.paths.iter().position(|path| match (depth, path) {
            (1, [name]) => *name == key,
            (2, [outer, name]) => within == Some(*outer) && *name == key,
            _ => false,
        })
    }

    /// The wanted name of a top-level member that has wanted members inside.
    fn parent(&self, depth: usize, key: &str) -> Option<&'static str> {
        let names = self.paths.iter().filter(|path| depth == 1 && path.len() == 2).map(|path| path[0]);
        names.into_iter().find(|name| *name == key)
    }

    fn refuse<E: serde::de::Error>(&mut self, fault: JsonFault) -> E {
        self.fault = Some(fault);
        E::custom("")
    }
}

/// One value somewhere in the document.
struct Value<'v, 'r, 'a> {
    reader: &'v mut Reader<'r, 'a>,
    /// The level that a container here would be at; the document's own is 1.
    depth: usize,
    within: Option<&'static str>,
    /// Whether a string here is kept; all others are checked and forgotten.
    keep: bool,
}

impl<'a> DeserializeSeed<'a> for Value<'_, '_, 'a> {
    type Value = Member<'a>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Member<'a>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Value<'_, '_, 'a> {
    type Value = Member<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("strict JSON")
    }

    fn visit_unit<E>(self) -> Result<Member<'a>, E> {
        Ok(Member::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Member<'a>, E> {
        Ok(Member::Other)
    }

    fn visit_u64<E>(self, integer: u64) -> Result<Member<'a>, E> {
        Ok(Member::Integer(integer))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Member<'a>, E> {
        Ok(Member::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Member<'a>, E> {
        Ok(Member::Other)
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<Member<'a>, E> {
        Ok(if self.keep { Member::Text(Text::Slice(text)) } else { Member::Other })
    }

    fn visit_str<E>(self, text: &str) -> Result<Member<'a>, E> {
        Ok(if self.keep { Member::Text(Text::Copied(Zeroizing::new(text.to_owned()))) } else { Member::Other })
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut items: A) -> Result<Member<'a>, A::Error> {
        let Value { reader, depth, .. } = self;
        if depth > MAX_DEPTH {
            return Err(reader.refuse(JsonFault::TooDeep));
        }
        loop {
            let item = Value { reader: &mut *reader, depth: depth + 1, within: None, keep: false };
            if items.next_element_seed(item)?.is_none() {
                return Ok(Member::Other);
            }
        }
    }

    fn visit_map<A: MapAccess<'a>>(self, mut members: A) -> Result<Member<'a>, A::Error> {
        let Value { reader, depth, within, .. } = self;
        if depth > MAX_DEPTH {
            return Err(reader.refuse(JsonFault::TooDeep));
        }
        let mut keys: Vec<Cow<'a, str>> = Vec::new();
        while let Some(key) = members.next_key_seed(Key)? {
            let slot = reader.wanted(depth, within, &key);
            let within = reader.parent(depth, &key);
            keys.push(key);
            let value = Value { reader: &mut *reader, depth: depth + 1, within, keep: slot.is_some() };
            let value = members.next_value_seed(value)?;
            if let Some(slot) = slot {
                reader.found[slot] = value;
            }
        }
        // Sorting once is cheaper than a set for the few keys of a real object, and no slower than one for many.
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(reader.refuse(JsonFault::DuplicateKey));
        }
        Ok(Member::Object)
    }
}

/// A key, copied only where it is escaped.
struct Key;

impl<'a> DeserializeSeed<'a> for Key {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Cow<'a, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Key {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'a str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn verdict(document: &[u8]) -> Result<bool, JsonFault> {
        read(document, [&["a"]]).map(|members: Option<[Member<'_>; 1]>| members.is_some())
    }

    #[test]
    fn what_a_strict_receiver_takes_passes() {
        let documents = [
            r#" {"a": [1, -0, 1.5e-7, true, false, null, "\ud83d\ude00 \u0000", {}]} "#,
            r#"{"a":18446744073709551616,"b":-99999999999999999999,"c":12345678901234567890}"#,
            r#"{"":{"":{"":0}}}"#,
            r#"{"a":{"k":1},"b":{"k":1}}"#,
            "{\"\u{feff}\":\"\u{7f}\u{2028}\"}",
        ];
        for document in documents {
            assert_eq!(verdict(document.as_bytes()), Ok(true), "{document}");
        }
        for document in ["[]", "1", "null", "\"text\"", " true "] {
            assert_eq!(verdict(document.as_bytes()), Ok(false), "{document}");
        }
    }

    #[test]
    fn what_a_strict_receiver_refuses_does_not_pass() {
        let documents: [&[u8]; 24] = [
            b"",
            b" ",
            b"{",
            b"{}{}",
            b"{} x",
            b"{\"a\":1,}",
            b"[1,]",
            b"{'a':1}",
            b"{a:1}",
            b"{\"a\":01}",
            b"{\"a\":+1}",
            b"{\"a\":1.}",
            b"{\"a\":NaN}",
            b"{\"a\":Infinity}",
            b"{\"a\":-Infinity}",
            b"{\"a\":1e999}",
            b"{\"a\":\"\\ud800\"}",
            b"{\"a\":\"\\udc00\\ud800\"}",
            b"{\"a\":\"\n\"}",
            b"{\"a\":\"\xff\"}",
            b"{\"\xc3\":1}",
            b"\xef\xbb\xbf{}",
            b"{\x00\"\x00a\x00\"\x00:\x001\x00}\x00",
            b"{\"a\":1} // no",
        ];
        for document in documents {
            assert_eq!(verdict(document), Err(JsonFault::Syntax), "{}", String::from_utf8_lossy(document));
        }
    }

    #[test]
    fn a_key_twice_in_one_object_is_found_at_any_depth_and_in_any_spelling() {
        for document in
            [r#"{"a":1,"a":1}"#, r#"{"a":1,"b":2,"\u0061":3}"#, r#"[[{"x":[{"k":{},"k":{}}]}]]"#, r#"{"":1,"":2}"#]
        {
            assert_eq!(verdict(document.as_bytes()), Err(JsonFault::DuplicateKey), "{document}");
        }
    }

    #[test]
    fn a_hundred_levels_pass_and_one_more_does_not() {
        let arrays = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let objects = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        assert_eq!(verdict(arrays(MAX_DEPTH).as_bytes()), Ok(false));
        assert_eq!(verdict(objects(MAX_DEPTH).as_bytes()), Ok(true));
        assert_eq!(verdict(arrays(MAX_DEPTH + 1).as_bytes()), Err(JsonFault::TooDeep));
        assert_eq!(verdict(objects(MAX_DEPTH + 1).as_bytes()), Err(JsonFault::TooDeep));
        assert_eq!(verdict("[".repeat(1_000_000).as_bytes()), Err(JsonFault::TooDeep));
    }

    #[test]
    fn only_members_at_their_own_path_are_kept() {
        let document =
            br#"{"o":{"x":"in","y":{"x":"deeper"}},"x":"top","l":[{"x":"listed"}],"o/x":"slash","e":"\u0041"}"#;
        let [inner, top, missing, object, escaped] =
            read(document, [&["o", "x"], &["x"], &["o", "z"], &["o"], &["e"]]).unwrap().unwrap();
        assert!(matches!(inner, Member::Text(Text::Slice("in"))));
        assert!(matches!(top, Member::Text(Text::Slice("top"))));
        assert!(matches!(missing, Member::Absent));
        assert!(matches!(object, Member::Object));
        assert!(matches!(escaped, Member::Text(text) if &*text == "A"));
    }

    proptest! {
        #[test]
        fn whatever_passes_is_json_to_serde_json_as_well(
            document in r#"[\[\]{}:, "\\ua0-9eE.+-]{0,24}"#,
        ) {
            let ours = verdict(document.as_bytes());
            let theirs = serde_json::from_str::<serde_json::Value>(&document);
            match ours {
                Ok(object) => prop_assert_eq!(theirs.unwrap().is_object(), object),
                Err(JsonFault::Syntax) => prop_assert!(theirs.is_err()),
                Err(_) => {}
            }
        }
    }
}
