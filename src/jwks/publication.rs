//! The documents that receivers fetch: one key set of everything, and one for each signing scope, with their entity tags.
//! It reads no clock, and puts nothing into a document but public halves.

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::HeaderValue;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::signer::SigningKeys;

/// Whose keys they are; the fixed keys are of no scope.
pub(crate) type Signers = BTreeMap<Option<String>, SigningKeys>;

pub(crate) struct Document {
    pub(super) bytes: Bytes,
    /// Strong: equal tags mean equal bytes.
    pub(super) tag: HeaderValue,
}

/// What is published at a moment.
pub(crate) struct Publication {
    /// The public key that stands under each key id in the set of everything.
    by_kid: BTreeMap<String, Value>,
    pub(super) all: Document,
    pub(super) by_scope: BTreeMap<String, Document>,
}

/// Two scopes have different keys under one key id. In the set of everything only one can stand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "scopes {scopes:?} and {other:?} have different keys under one key id, {kid:?}, and receivers of the set of all keys could \
     not tell them apart; give one of them another key id",
    scopes = .scope
)]
pub(crate) struct Conflict {
    pub(crate) kid: String,
    /// Whose key is published under it.
    pub(crate) scope: String,
    /// Whose key is not.
    pub(crate) other: String,
}

impl Publication {
    /// What was published under a key id stays, where somebody else claims it too: receivers hold it.
    pub(crate) fn of(signers: &Signers, now: SystemTime, before: Option<&Publication>) -> (Publication, Vec<Conflict>) {
        let mut claims: BTreeMap<String, Vec<(&str, Value)>> = BTreeMap::new();
        let mut by_scope = BTreeMap::new();
        for (scope, keys) in signers {
            let keys: BTreeMap<String, Value> =
                keys.published_at(now).map(|key| (key.kid().to_owned(), key.public_jwk())).collect();
            if let Some(scope) = scope {
                by_scope.insert(scope.clone(), Document::of(keys.values()));
            }
            for (kid, jwk) in keys {
                claims.entry(kid).or_default().push((scope.as_deref().unwrap_or_default(), jwk));
            }
        }
        let (mut by_kid, mut conflicts) = (BTreeMap::new(), Vec::new());
        for (kid, claims) in claims {
            let held = before.and_then(|before| before.by_kid.get(&kid));
            // There is at least one claim of every key id.
            let Some((scope, jwk)) = claims.iter().find(|(_, jwk)| Some(jwk) == held).or(claims.first()) else {
                continue;
            };
            let others = claims.iter().filter(|(_, other)| other != jwk);
            conflicts.extend(others.map(|(other, _)| Conflict {
                kid: kid.clone(),
                scope: scope.to_string(),
                other: other.to_string(),
            }));
            by_kid.insert(kid, jwk.clone());
        }
        let all = Document::of(by_kid.values());
        (Publication { by_kid, all, by_scope }, conflicts)
    }

    pub(crate) fn keys(&self) -> usize {
        self.by_kid.len()
    }
}

impl Document {
    fn of<'a>(keys: impl Iterator<Item = &'a Value>) -> Document {
        let text = json!({ "keys": keys.collect::<Vec<_>>() }).to_string() + "\n";
        let hash = digest(&SHA256, text.as_bytes());
        let tag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]));
        // Base64url and quotes are what a header may have.
        let tag = HeaderValue::from_str(&tag).expect("an entity tag is visible ASCII");
        Document { bytes: Bytes::from(text), tag }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};

    use ring::rand::SystemRandom;

    use super::*;
    use crate::signature::{Algorithm, SigningKey};
    use crate::signer::{PUBLISHED_AFTER, TimedKey, Window};

    fn key(algorithm: Algorithm, kid: &str) -> Arc<SigningKey> {
        Arc::new(SigningKey::generate(algorithm, Some(kid), &SystemRandom::new()).unwrap().0)
    }

    fn keys(list: &[(&Arc<SigningKey>, Option<u64>, Option<u64>)]) -> SigningKeys {
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(seconds);
        let timed = list.iter().map(|(key, from, to)| TimedKey {
            key: Arc::clone(key),
            window: Window { not_before: from.map(at), not_after: to.map(at) },
        });
        SigningKeys::new(timed.collect()).unwrap()
    }

    fn signers(list: &[(Option<&str>, &SigningKeys)]) -> Signers {
        list.iter().map(|(scope, keys)| (scope.map(str::to_owned), (*keys).clone())).collect()
    }

    fn kids(document: &Document) -> Vec<String> {
        let set: Value = serde_json::from_slice(&document.bytes).unwrap();
        let keys = set["keys"].as_array().unwrap();
        keys.iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_document_has_exactly_the_members_of_public_keys() {
        let (ed, es) = (key(Algorithm::Ed25519, "ed"), key(Algorithm::EcdsaP256Sha256, "es"));
        let both = keys(&[(&ed, None, None), (&es, Some(5), None)]);
        let (publication, _) = Publication::of(&signers(&[(Some("a"), &both)]), UNIX_EPOCH, None);
        for document in [&publication.all, &publication.by_scope["a"]] {
            let set: Value = serde_json::from_slice(&document.bytes).unwrap();
            assert_eq!(set.as_object().unwrap().keys().collect::<Vec<_>>(), ["keys"]);
            for key in set["keys"].as_array().unwrap() {
                let members: BTreeSet<&str> = key.as_object().unwrap().keys().map(String::as_str).collect();
                let mut expected = BTreeSet::from(["adcp_use", "alg", "crv", "key_ops", "kid", "kty", "use", "x"]);
                if key["kty"] == "EC" {
                    expected.insert("y");
                }
                assert_eq!(members, expected);
            }
        }
    }

    #[test]
    fn keys_are_published_before_they_sign_and_for_a_week_after() {
        let (old, new) = (key(Algorithm::Ed25519, "old"), key(Algorithm::Ed25519, "new"));
        let signers = signers(&[(None, &keys(&[(&old, None, Some(100)), (&new, Some(90), None)]))]);
        let at = |now| Publication::of(&signers, now, None).0;
        let end = UNIX_EPOCH + Duration::from_secs(100) + PUBLISHED_AFTER;
        assert_eq!(kids(&at(UNIX_EPOCH).all), ["new", "old"]);
        assert_eq!(kids(&at(end - Duration::from_nanos(1)).all), ["new", "old"]);
        let after = at(end);
        assert_eq!((kids(&after.all), after.keys()), (vec!["new".to_owned()], 1));
        assert_ne!(at(UNIX_EPOCH).all.tag, after.all.tag);
        assert_eq!(at(UNIX_EPOCH).all.tag, at(UNIX_EPOCH).all.tag, "the same keys have the same tag");
        assert!(after.by_scope.is_empty());
    }

    #[test]
    fn each_scope_has_a_document_of_its_own_and_one_has_all() {
        let (a, b) = (key(Algorithm::Ed25519, "a-1"), key(Algorithm::Ed25519, "b-1"));
        let (of_a, of_b) = (keys(&[(&a, None, None)]), keys(&[(&b, None, None)]));
        let both = signers(&[(Some("a"), &of_a), (Some("b"), &of_b)]);
        let (publication, conflicts) = Publication::of(&both, UNIX_EPOCH, None);
        assert_eq!(kids(&publication.all), ["a-1", "b-1"]);
        assert_eq!(kids(&publication.by_scope["a"]), ["a-1"]);
        assert_eq!(kids(&publication.by_scope["b"]), ["b-1"]);
        assert_eq!(conflicts, []);
    }

    #[test]
    fn one_key_of_two_scopes_is_published_once_and_no_conflict() {
        let shared = key(Algorithm::Ed25519, "k");
        let of = keys(&[(&shared, None, None)]);
        let both = signers(&[(Some("a"), &of), (Some("b"), &of)]);
        let (publication, conflicts) = Publication::of(&both, UNIX_EPOCH, None);
        assert_eq!((kids(&publication.all), conflicts.len()), (vec!["k".to_owned()], 0));
    }

    #[test]
    fn of_two_keys_under_one_key_id_the_one_that_receivers_hold_stays_and_the_other_is_named() {
        let (first, second) = (key(Algorithm::Ed25519, "k"), key(Algorithm::Ed25519, "k"));
        let (of_first, of_second) = (keys(&[(&first, None, None)]), keys(&[(&second, None, None)]));
        let alone = signers(&[(Some("z"), &of_second)]);
        let both = signers(&[(Some("a"), &of_first), (Some("z"), &of_second)]);
        let (before, _) = Publication::of(&alone, UNIX_EPOCH, None);
        let (publication, conflicts) = Publication::of(&both, UNIX_EPOCH, Some(&before));
        assert_eq!(publication.all.bytes, before.all.bytes);
        assert_eq!(conflicts, [Conflict { kid: "k".into(), scope: "z".into(), other: "a".into() }]);
        let text = conflicts[0].to_string();
        assert!(["\"a\"", "\"z\"", "\"k\"", "another key id"].iter().all(|word| text.contains(word)), "{text}");
        // By itself each scope is what it says.
        assert_ne!(publication.by_scope["a"].bytes, publication.by_scope["z"].bytes);
        let (fresh, conflicts) = Publication::of(&both, UNIX_EPOCH, None);
        assert_eq!((fresh.all.bytes == publication.all.bytes, conflicts[0].other.as_str()), (false, "z"));
    }
}
