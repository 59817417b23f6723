//! `sql/host/README.md` against the database: what the reference promises is run, and what exists is in it.

use super::cluster::Database;

/// The text below a heading, up to the next of its rank.
pub fn section(heading: &str) -> &'static str {
    let reference = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/host/README.md"));
    let (_, after) = reference.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    after.split("\n## ").next().unwrap_or(after)
}

/// Runs the section's examples, and finds each function there with the SQLSTATEs that its comment names.
pub async fn assert_kept(database: &Database, heading: &str, functions: &[&str]) {
    let text = section(heading);
    for example in text.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        database.client.batch_execute(example).await.unwrap_or_else(|error| panic!("{example}: {error:?}"));
    }
    for function in functions {
        let sql =
            "SELECT obj_description(oid) FROM pg_proc WHERE pronamespace = 'outboxd'::regnamespace AND proname = $1";
        let comment: String = database.value(sql, &[function]).await;
        let (_, errors) = comment.split_once("Errors: ").unwrap_or_else(|| panic!("{function}: {comment}"));
        let row = text.lines().find(|line| line.starts_with(&format!("| `outboxd.{function}(")));
        let row = row.unwrap_or_else(|| panic!("{function} is not in the reference"));
        for state in errors.trim_end_matches('.').split(", ").filter(|state| *state != "none") {
            assert!(row.contains(&format!("`{state}`")), "{function}: {state} is not in its row");
            assert!(text.contains(&format!("\n| `{state}` |")), "{state} is not among the errors");
        }
    }
}
