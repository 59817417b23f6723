//! An independent sealing oracle: AAD, envelopes and bodies as wire.md sections 2 and 7.3 state them, made with
//! ring and nothing of the crate. It deliberately checks nothing, so that tests can seal what no host should.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use super::keys::{hex, random, unhex};

#[derive(Clone)]
pub struct EnvelopeKey(pub [u8; 32]);

impl EnvelopeKey {
    pub fn new() -> EnvelopeKey {
        EnvelopeKey(random())
    }

    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    /// As `outboxd keygen` writes it.
    pub fn of_file(path: &Path) -> EnvelopeKey {
        let text = std::fs::read_to_string(path).expect("the key's file is there");
        EnvelopeKey(unhex(text.trim()).try_into().expect("32 bytes in hex"))
    }

    /// Ciphertext and tag.
    pub fn seal(&self, nonce: [u8; 12], aad: &[u8], plaintext: &[u8]) -> Vec<u8> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &self.0).expect("the key has 32 bytes"));
        let mut sealed = plaintext.to_vec();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), &mut sealed)
            .expect("the plaintext is short enough");
        sealed
    }

    /// Nothing where it was sealed under another key, or bound to something else.
    pub fn open(&self, nonce: &[u8], aad: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &self.0).expect("the key has 32 bytes"));
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut opened = sealed.to_vec();
        let length = key.open_in_place(nonce, Aad::from(aad), &mut opened).ok()?.len();
        opened.truncate(length);
        Some(opened)
    }

    /// By which commands, logs and metrics name it.
    pub fn fingerprint(&self) -> String {
        let mut named = b"outboxd envelope key\0".to_vec();
        named.extend_from_slice(&self.0);
        hex(&digest(&SHA256, &named).as_ref()[..6])
    }
}

/// A row before it is sealed. Tests change fields, then seal; or change the body behind the row's back.
#[derive(Clone)]
pub struct Draft {
    pub account_id: String,
    pub task_id: String,
    pub task_type: String,
    pub terminal_status: String,
    pub url: String,
    pub operation_id: String,
    pub idempotency_key: String,
    pub signing_scope_id: Option<String>,
    pub authentication: Option<(String, String)>,
    pub token: Option<String>,
    pub result: Value,
}

impl Draft {
    pub fn to(url: impl Into<String>) -> Draft {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        Draft {
            account_id: "acc_1".into(),
            task_id: format!("task_{serial:016x}"),
            task_type: "create_media_buy".into(),
            terminal_status: "completed".into(),
            url: url.into(),
            operation_id: format!("op_{serial}"),
            idempotency_key: format!("whk_{}", hex(&random::<16>())),
            signing_scope_id: None,
            authentication: None,
            token: None,
            result: json!({"media_buy_id": format!("mb_{serial}")}),
        }
    }

    pub fn many(url: &str, count: usize) -> Vec<Draft> {
        (0..count).map(|_| Draft::to(url)).collect()
    }

    pub fn scope(mut self, scope: &str) -> Draft {
        self.signing_scope_id = Some(scope.into());
        self
    }

    pub fn authentication(mut self, scheme: &str, credentials: &str) -> Draft {
        self.authentication = Some((scheme.into(), credentials.into()));
        self
    }

    /// The HTTP body: compact, raw UTF-8.
    pub fn body(&self) -> Vec<u8> {
        let mut body = Map::new();
        body.insert("idempotency_key".into(), self.idempotency_key.as_str().into());
        body.insert("notification_id".into(), format!("{}.terminal", self.task_id).into());
        body.insert("operation_id".into(), self.operation_id.as_str().into());
        body.insert("task_id".into(), self.task_id.as_str().into());
        body.insert("task_type".into(), self.task_type.as_str().into());
        body.insert("protocol".into(), "media-buy".into());
        body.insert("status".into(), self.terminal_status.as_str().into());
        body.insert("timestamp".into(), "2026-01-02T03:04:05.678901Z".into());
        if let Some(token) = &self.token {
            body.insert("token".into(), token.as_str().into());
        }
        body.insert("result".into(), self.result.clone());
        serde_json::to_vec(&body).expect("a map of JSON values is JSON")
    }

    /// What is encrypted: the body, or the version 1 envelope with the credentials beside it.
    pub fn plaintext(&self) -> Vec<u8> {
        let body = self.body();
        let Some((scheme, credentials)) = &self.authentication else { return body };
        let encoded = STANDARD.encode(body);
        format!(
            r#"{{"task_webhook_delivery_version":1,"body":"{encoded}","authentication":{{"scheme":{},"credentials":{}}}}}"#,
            quote(scheme),
            quote(credentials),
        )
        .into_bytes()
    }

    /// Seven fields, or eight where the row has a scope.
    pub fn aad(&self) -> Vec<u8> {
        let mut fields: Vec<&str> = vec![
            &self.account_id,
            &self.task_id,
            &self.task_type,
            &self.terminal_status,
            &self.url,
            &self.operation_id,
            &self.idempotency_key,
        ];
        fields.extend(self.signing_scope_id.as_deref());
        let quoted: Vec<String> = fields.into_iter().map(quote).collect();
        format!("[{}]", quoted.join(",")).into_bytes()
    }

    pub fn seal(self, key: &EnvelopeKey) -> Sealed {
        let plaintext = self.plaintext();
        self.seal_plaintext(key, &plaintext)
    }

    pub fn seal_plaintext(self, key: &EnvelopeKey, plaintext: &[u8]) -> Sealed {
        let nonce = random();
        Sealed { encrypted_body: key.seal(nonce, &self.aad(), plaintext), envelope_nonce: nonce.to_vec(), draft: self }
    }
}

/// A row as it is stored. Changing anything here is corruption.
pub struct Sealed {
    pub draft: Draft,
    pub encrypted_body: Vec<u8>,
    pub envelope_nonce: Vec<u8>,
}

/// Python's `json.dumps(ensure_ascii=False)` of one string (wire.md 2.2).
pub fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
