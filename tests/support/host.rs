//! A host that knows nothing but SQL: it calls the shipped functions over a connection of its own, under the role that
//! hosts are granted. Sealing, which it cannot do, is the oracle's.

use serde_json::{Value, json};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::cluster::{Database, connect};
use super::keys::random;
use super::seal::{EnvelopeKey, quote};

/// What a buyer registered for one task.
#[derive(Clone)]
pub struct Registration {
    pub url: String,
    pub operation_id: String,
    pub token: Option<String>,
    pub authentication: Option<(String, String)>,
    pub signing_scope_id: Option<String>,
}

impl Registration {
    pub fn to(url: impl Into<String>) -> Registration {
        Registration {
            url: url.into(),
            operation_id: "op_1".into(),
            token: None,
            authentication: None,
            signing_scope_id: None,
        }
    }

    /// Ciphertext and nonce, by wire.md section 2.4.
    pub fn seal(&self, key: &EnvelopeKey, account: &str, task: &str, task_type: &str) -> (Vec<u8>, Vec<u8>) {
        let fields = ["task-webhook-registration-v1", account, task, task_type].map(quote);
        let aad = format!("[{}]", fields.join(","));
        let authentication = self.authentication.as_ref();
        let plaintext = json!({
            "url": self.url,
            "operation_id": self.operation_id,
            "token": self.token,
            "authentication": authentication.map(|(scheme, secret)| json!({"scheme": scheme, "credentials": secret})),
            "signing_scope_id": self.signing_scope_id,
        });
        let nonce: [u8; 12] = random();
        (key.seal(nonce, aad.as_bytes(), plaintext.to_string().as_bytes()), nonce.to_vec())
    }
}

pub struct Host {
    pub client: Client,
}

impl Host {
    pub async fn on(database: &Database) -> Host {
        let client = connect(&database.url).await;
        client.batch_execute("set role outboxd_host").await.expect("migrate made the role");
        Host { client }
    }

    /// The one value of a call, or its SQLSTATE.
    pub async fn call<T: tokio_postgres::types::FromSqlOwned>(
        &self,
        call: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<T, String> {
        match self.client.query_one(&format!("select {call}"), parameters).await {
            Ok(row) => Ok(row.get(0)),
            Err(error) => match error.code() {
                Some(code) => Err(code.code().to_owned()),
                None => panic!("{call}: {error:?}"),
            },
        }
    }

    /// A task of account `acc_1`, announced by this registration when it ends.
    pub async fn issue(&self, key: &EnvelopeKey, task_type: &str, registration: &Registration) -> String {
        let task: String = self.call("outboxd.new_task_id()", &[]).await.expect("ids are free");
        let (sealed, nonce) = registration.seal(key, "acc_1", &task, task_type);
        let call = "outboxd.issue_task('acc_1', $1, null, $2, $3, $4, $5)";
        self.call(call, &[&task_type, &sealed, &nonce, &task, &registration.url]).await.expect("it is issued")
    }

    pub async fn complete(&self, task: &str, result: &str) -> Result<bool, String> {
        self.call("outboxd.complete_task($1, $2::text::json)", &[&task, &result]).await
    }

    pub async fn fail(&self, task: &str, error: &str) -> Result<bool, String> {
        self.call("outboxd.fail_task($1, $2::text::json)", &[&task, &error]).await
    }

    /// The body that a composed row must give, without its key and time: they are looked up.
    pub fn assert_body(body: &[u8], task: &str, registration: &Registration, status: &str, result: &str) {
        let text = std::str::from_utf8(body).expect("bodies are UTF-8");
        assert!(text.ends_with(&format!(", \"result\": {result}}}")), "{text}");
        let body: Value = serde_json::from_slice(body).expect("bodies are JSON");
        assert_eq!(body["task_id"], task, "{text}");
        assert_eq!(body["notification_id"], format!("{task}.terminal"), "{text}");
        assert_eq!(body["operation_id"], registration.operation_id, "{text}");
        assert_eq!(body["status"], status, "{text}");
        assert_eq!(body.get("token").and_then(Value::as_str), registration.token.as_deref(), "{text}");
        let key = body["idempotency_key"].as_str().expect("it has one");
        assert!(key.len() == 40 && key.starts_with("whk_") && key.as_bytes()[18] == b'4', "{key}");
    }
}
