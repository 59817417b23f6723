//! The contract as it is written down: every function has a comment, prepares with the types that the reference gives,
//! and every SQLSTATE that a file can raise is in the reference's table.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::cluster::Database;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/host")
}

fn reference() -> String {
    fs::read_to_string(directory().join("README.md")).expect("the reference is in the repository")
}

/// The codes `ODxxx` of tasks and `OIxxx` of the inbox in a text.
fn codes(text: &str) -> BTreeSet<String> {
    let word = |at: usize| text.get(at..at + 5).filter(|word| word.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    (text.match_indices("OD").chain(text.match_indices("OI")))
        .filter_map(|(at, _)| word(at))
        .filter(|word| word[2..].bytes().any(|b| b.is_ascii_digit()))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn every_function_is_in_the_reference_and_prepares_with_its_types() {
    let database = Database::new().await;
    let reference = reference();
    let sql = "select p.proname::text, pg_get_function_identity_arguments(p.oid), \
               array(select format_type(t, null) from unnest(p.proargtypes) as t), p.oid::regprocedure::text \
               from pg_proc as p where p.pronamespace = 'outboxd'::regnamespace and not starts_with(p.proname, '_') \
               order by 1";
    let functions = database.client.query(sql, &[]).await.expect("the catalog answers");
    assert!(functions.len() >= 11, "{}", functions.len());
    for function in functions {
        let (name, arguments): (String, String) = (function.get(0), function.get(1));
        // The reference spells the type as everybody types it.
        let arguments = arguments.replace("timestamp with time zone", "timestamptz");
        let types: Vec<String> = function.get(2);
        let signature: String = function.get(3);
        let section = reference.split(&format!("`outboxd.{name}(")).nth(1);
        let documented = section.and_then(|section| section.split('`').next()).unwrap_or_default();
        for argument in arguments.split(", ").filter(|argument| argument.starts_with("p_")) {
            assert!(documented.contains(argument), "{signature}: the reference lacks {argument}");
        }
        let places: Vec<String> = (1..=types.len()).map(|nth| format!("${nth}")).collect();
        let typed = if types.is_empty() { String::new() } else { format!("({})", types.join(", ")) };
        let prepare =
            format!("prepare one{typed} as select * from outboxd.{name}({}); deallocate one", places.join(", "));
        database.client.batch_execute(&prepare).await.unwrap_or_else(|error| panic!("{signature}: {error:?}"));
    }
    let silent = "select coalesce(string_agg(p.oid::regprocedure::text, ' '), '') from pg_proc as p \
                  where p.pronamespace = 'outboxd'::regnamespace and obj_description(p.oid, 'pg_proc') is null";
    assert_eq!(database.value::<String>(silent, &[]).await, "", "functions without comment");
}

#[test]
fn every_sqlstate_that_a_function_raises_is_in_the_reference() {
    let documented = codes(&reference());
    let mut raised = BTreeSet::new();
    for entry in fs::read_dir(directory()).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            raised.extend(codes(&fs::read_to_string(&path).expect("SQL is text")));
        }
    }
    assert_eq!(raised, documented);
}

#[tokio::test]
async fn the_types_that_are_listed_are_those_that_are_accepted() {
    let database = Database::new().await;
    let types = database.client.query("select task_type from outboxd.task_types()", &[]).await.expect("it lists");
    assert_eq!(types.len(), 38);
    for row in types {
        let check = "select outboxd._check_reportable('task_1', $1)";
        database.client.query(check, &[&row.get::<_, String>(0)]).await.expect("it is accepted");
    }
    let body = "select count(*) from regexp_matches((select prosrc from pg_proc where proname = '_check_reportable'), \
                '''[a-z]+_[a-z_]+''', 'g')";
    assert_eq!(database.value::<i64>(body, &[]).await, 39, "the types, and the one that is named again");
}
