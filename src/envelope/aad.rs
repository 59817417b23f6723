//! The associated data that ties an envelope to its row. It only spells the bytes; it neither seals nor opens.

use super::row::Row;

/// The columns that a delivery envelope is bound to, in the order of the wire contract.
#[derive(Clone, Copy)]
pub(crate) struct Binding<'a> {
    pub(crate) account_id: &'a str,
    pub(crate) task_id: &'a str,
    pub(crate) task_type: &'a str,
    pub(crate) terminal_status: &'a str,
    pub(crate) url: &'a str,
    pub(crate) operation_id: &'a str,
    pub(crate) idempotency_key: &'a str,
    /// `Some("")` is not `None`: an empty scope still makes an eighth field.
    pub(crate) signing_scope_id: Option<&'a str>,
}

impl<'a> From<&'a Row> for Binding<'a> {
    fn from(row: &'a Row) -> Self {
        Binding {
            account_id: &row.account_id,
            task_id: &row.task_id,
            task_type: &row.task_type,
            terminal_status: &row.terminal_status,
            url: &row.url,
            operation_id: &row.operation_id,
            idempotency_key: &row.idempotency_key,
            signing_scope_id: row.signing_scope_id.as_deref(),
        }
    }
}

/// Associated data, ready for the cipher. Only the forms that something is sealed to can be made.
pub(crate) struct Aad(Vec<u8>);

impl Aad {
    pub(crate) fn delivery(binding: &Binding<'_>) -> Self {
        let Binding { account_id, task_id, task_type, terminal_status, url, operation_id, idempotency_key, .. } =
            *binding;
        let mut fields = vec![account_id, task_id, task_type, terminal_status, url, operation_id, idempotency_key];
        fields.extend(binding.signing_scope_id);
        Aad(json_array(&fields))
    }

    pub(crate) fn registration(account_id: &str, task_id: &str, task_type: &str) -> Self {
        Aad(json_array(&["task-webhook-registration-v1", account_id, task_id, task_type]))
    }

    /// Of a signing key in the table of scopes.
    pub(crate) fn signing_key(scope: &str, key_id: &str) -> Self {
        Aad(json_array(&["signing-scope-v1", scope, key_id]))
    }

    /// Of the client certificate and its key that a scope has there.
    pub(crate) fn client_certificate(scope: &str) -> Self {
        Aad(json_array(&["signing-scope-client-v1", scope]))
    }

    #[cfg(test)]
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        Aad(bytes.to_vec())
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// serde_json escapes as the writer's `json.dumps(ensure_ascii=False)` does: `"`, `\` and the C0 controls, lowercase
/// hex, nothing else. The vectors hold that for every class of character.
fn json_array(fields: &[&str]) -> Vec<u8> {
    let mut json = Vec::with_capacity(2 + fields.iter().map(|field| field.len() + 3).sum::<usize>());
    // Strings serialize to JSON whatever they hold, and a Vec takes every write.
    serde_json::to_writer(&mut json, fields).expect("strings always serialize");
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_character_is_spelt_as_the_writer_spells_it() {
        let table = [
            ("\"\\", r#"\"\\"#),
            ("\u{8}\u{c}\n\r\t", r"\b\f\n\r\t"),
            ("\0\u{1}\u{b}\u{1f}", r"\u0000\u0001\u000b\u001f"),
            ("/<>&'", "/<>&'"),
            ("\u{7f}\u{80}\u{9f}", "\u{7f}\u{80}\u{9f}"),
            ("\u{2028}\u{2029}\u{feff}\u{ffff}", "\u{2028}\u{2029}\u{feff}\u{ffff}"),
            ("😀é", "😀é"),
        ];
        for (field, spelt) in table {
            let expected = format!("[\"task-webhook-registration-v1\",\"{spelt}\",\"\",\"t\"]");
            assert_eq!(Aad::registration(field, "", "t").as_bytes(), expected.as_bytes(), "{field:?}");
        }
    }
}
