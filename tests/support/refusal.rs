//! What a function of `sql/host` says when it refuses. Deliberately takes errors of the server only: anything
//! else is a broken test.

use serde_json::Value;

#[derive(Debug, Clone)]
pub struct Refusal {
    pub sqlstate: String,
    pub message: String,
    pub hint: String,
    pub detail: Option<String>,
}

impl Refusal {
    pub fn of(error: &tokio_postgres::Error) -> Refusal {
        let said = error.as_db_error().unwrap_or_else(|| panic!("not an error of the server: {error}"));
        Refusal {
            sqlstate: said.code().code().to_string(),
            message: said.message().to_string(),
            hint: said.hint().unwrap_or_default().to_string(),
            detail: said.detail().map(str::to_string),
        }
    }

    /// The DETAIL as what a buyer may be told: code, recovery, field.
    pub fn told(&self) -> (String, String, Option<String>) {
        let detail = self.detail.as_deref().unwrap_or_else(|| panic!("no detail: {self:?}"));
        let told: Value = serde_json::from_str(detail).unwrap_or_else(|_| panic!("no JSON: {detail}"));
        let member = |name: &str| told[name].as_str().map(str::to_string);
        (member("code").expect("a code"), member("recovery").expect("a recovery"), member("field"))
    }
}
