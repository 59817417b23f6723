//! The host's functions for proposals: the states, what is refused in each, and who wins a reservation.

use tokio::join;
use tokio_postgres::{Client, IsolationLevel};

use crate::support::cluster::{Database, connect};
use crate::support::eventually::eventually;
use crate::support::reference;
use crate::support::refusal::Refusal;

const DEADLINE: &str = "2031-05-06T07:08:09.123456Z";

/// One call in SQL's own words; its boolean, or the refusal.
async fn call(client: &Client, called: &str) -> Result<bool, Refusal> {
    let sql = format!("SELECT outboxd.{called}");
    client.query_one(&sql, &[]).await.map(|row| row.get(0)).map_err(|error| Refusal::of(&error))
}

async fn reserve(client: &Client, account: &str, proposal: &str) -> Result<String, Refusal> {
    let sql = "SELECT to_jsonb(reserved)::text FROM outboxd.try_reserve_consumption($1, $2) AS reserved";
    client.query_one(sql, &[&account, &proposal]).await.map(|row| row.get(0)).map_err(|error| Refusal::of(&error))
}

fn draft(account: &str, proposal: &str) -> String {
    format!(r#"put_draft('{account}', '{proposal}', '{{"p1": {{"recipe_kind": "k"}}}}', '{{"total": 1.50}}')"#)
}

fn commit(account: &str, proposal: &str) -> String {
    format!(r#"commit_proposal('{account}', '{proposal}', '{DEADLINE}', '{{"total": 2}}')"#)
}

/// Brings a new proposal of account `a` into `state` and returns its id.
async fn proposal_in(client: &Client, state: &str) -> String {
    let id = format!("was_{state}");
    let steps = [
        ("draft", draft("a", &id)),
        ("committed", commit("a", &id)),
        ("consuming", format!("try_reserve_consumption('a', '{id}') IS DISTINCT FROM NULL")),
        ("consumed", format!("finalize_consumption('a', '{id}', 'mb_{id}')")),
    ];
    for (reached, step) in steps {
        assert!(call(client, &step).await.expect("each step follows the one before"), "{step}");
        if reached == state {
            break;
        }
    }
    id
}

async fn state(database: &Database, id: &str) -> Option<String> {
    database.value("SELECT (SELECT state FROM outboxd.get_proposal('a', $1))", &[&id]).await
}

#[tokio::test]
async fn a_proposal_goes_from_draft_to_media_buy_and_repeats_change_nothing() {
    let database = Database::new().await;
    let client = &database.client;
    assert!(call(client, &draft("a", "p")).await.expect("it is new"));
    assert!(!call(client, &draft("a", "p")).await.expect("a draft may be replaced"));
    assert!(call(client, &commit("a", "p")).await.expect("it was a draft"));
    assert!(!call(client, &commit("a", "p")).await.expect("the same again"));
    let same = r#"commit_proposal('a', 'p', '2031-05-06 09:08:09.123456+02', '{"total": 2.0}')"#;
    assert!(!call(client, same).await.expect("the same in other words"));
    let reserved = reserve(client, "a", "p").await.expect("it is committed");
    for part in [r#""state": "consuming""#, r#""total": 2"#, r#""media_buy_id": null"#, "09.123456", r#""recipe_kind""#]
    {
        assert!(reserved.contains(part), "{part}: {reserved}");
    }
    assert!(call(client, "release_consumption('a', 'p')").await.expect("it is reserved"));
    assert!(!call(client, "release_consumption('a', 'p')").await.expect("it was given back"));
    reserve(client, "a", "p").await.expect("it is committed again");
    let finalize = "finalize_consumption('a', 'p', 'mb_1')";
    assert!(call(client, finalize).await.expect("it is reserved"));
    assert!(!call(client, finalize).await.expect("the same again"));
    assert!(!call(client, "mark_consumed('a', 'p', 'mb_1')").await.expect("the same by another way"));
    let by_buy = "SELECT proposal_id || ' ' || state FROM outboxd.get_proposal_by_media_buy('a', 'mb_1')";
    assert_eq!(database.value::<String>(by_buy, &[]).await, "p consumed");
    assert!(call(client, "discard_proposal('a', 'p')").await.expect("whatever its state"));
    assert!(!call(client, "discard_proposal('a', 'p')").await.expect("it is gone"));
    assert!(!call(client, "release_consumption('a', 'p')").await.expect("there is nothing to give back"));
}

#[tokio::test]
async fn a_committed_proposal_may_be_marked_without_a_reservation() {
    let database = Database::new().await;
    let id = proposal_in(&database.client, "committed").await;
    let mark = format!("mark_consumed('a', '{id}', 'mb_9')");
    assert!(call(&database.client, &mark).await.expect("it is committed"));
    assert!(!call(&database.client, &mark).await.expect("the same again"));
    assert_eq!(state(&database, &id).await.as_deref(), Some("consumed"));
}

/// Every call in every state: the SQLSTATE, or the state it leads to.
#[tokio::test]
async fn every_forbidden_transition_is_refused_and_changes_nothing() {
    let expected = [
        ("put_draft", ["draft", "OD205", "OD205", "OD205", "draft"]),
        ("commit_proposal", ["committed", "committed", "OD205", "OD205", "OD204"]),
        ("try_reserve_consumption", ["OD203", "consuming", "OD203", "OD203", "OD202"]),
        ("finalize_consumption", ["OD205", "OD205", "consumed", "OD207", "OD204"]),
        ("release_consumption", ["OD205", "committed", "committed", "OD205", "gone"]),
        ("mark_consumed", ["OD205", "consumed", "OD205", "OD207", "OD204"]),
        ("discard_proposal", ["gone", "gone", "gone", "gone", "gone"]),
    ];
    for (function, outcomes) in expected {
        let database = Database::new().await;
        for (from, outcome) in ["draft", "committed", "consuming", "consumed", "gone"].into_iter().zip(outcomes) {
            let id = match from {
                "gone" => "never_was".to_string(),
                _ => proposal_in(&database.client, from).await,
            };
            let called = match function {
                "put_draft" => draft("a", &id),
                "commit_proposal" => commit("a", &id),
                "try_reserve_consumption" => format!("try_reserve_consumption('a', '{id}') IS DISTINCT FROM NULL"),
                "finalize_consumption" | "mark_consumed" => format!("{function}('a', '{id}', 'another_{from}')"),
                _ => format!("{function}('a', '{id}')"),
            };
            let refused = call(&database.client, &called).await.err();
            let after = state(&database, &id).await.unwrap_or_else(|| "gone".to_string());
            let context = format!("{function} on {from}: {refused:?}, now {after}");
            match refused {
                None => assert_eq!(after, outcome, "{context}"),
                Some(refusal) => {
                    assert_eq!((refusal.sqlstate.as_str(), after.as_str()), (outcome, from), "{context}");
                    assert!(refusal.message.contains(&id) && !refusal.hint.is_empty(), "{context}");
                    assert!(from == "gone" || refusal.message.contains(from), "{context}");
                    let (code, recovery, field) = refusal.told();
                    let told = (code.as_str(), recovery.as_str(), field.as_deref());
                    let wanted = match outcome {
                        "OD202" => ("PROPOSAL_NOT_FOUND", "correctable", Some("proposal_id")),
                        "OD203" => ("PROPOSAL_NOT_COMMITTED", "correctable", Some("proposal_id")),
                        _ => ("INTERNAL_ERROR", "terminal", None),
                    };
                    assert_eq!(told, wanted, "{context}");
                }
            }
        }
    }
}

async fn refused(database: &Database, called: &str) -> Refusal {
    let refusal = call(&database.client, called).await.expect_err(called);
    assert_eq!(refusal.told(), ("INTERNAL_ERROR".into(), "terminal".into(), None), "{called}");
    assert!(!refusal.hint.is_empty(), "{called}");
    refusal
}

#[tokio::test]
async fn another_commitment_is_not_a_repeat() {
    let database = Database::new().await;
    proposal_in(&database.client, "committed").await;
    for other in [
        r#"commit_proposal('a', 'was_committed', '2031-05-06T07:08:09.123457Z', '{"total": 2}')"#,
        r#"commit_proposal('a', 'was_committed', '2031-05-06T07:08:09.123456Z', '{"total": 3}')"#,
    ] {
        assert_eq!(refused(&database, other).await.sqlstate, "OD206");
    }
}

#[tokio::test]
async fn a_media_buy_has_one_proposal_in_its_account() {
    let database = Database::new().await;
    proposal_in(&database.client, "consumed").await;
    proposal_in(&database.client, "committed").await;
    proposal_in(&database.client, "consuming").await;
    for taken in [
        "mark_consumed('a', 'was_committed', 'mb_was_consumed')",
        "finalize_consumption('a', 'was_consuming', 'mb_was_consumed')",
    ] {
        let refusal = refused(&database, taken).await;
        assert_eq!(refusal.sqlstate, "OD208", "{refusal:?}");
        assert!(refusal.message.contains("mb_was_consumed"), "{refusal:?}");
    }
    assert_eq!(state(&database, "was_committed").await.as_deref(), Some("committed"));
    assert_eq!(state(&database, "was_consuming").await.as_deref(), Some("consuming"));
}

/// Only our own index is taken for a media buy that is taken: a host may have uniqueness of its own on the table.
#[tokio::test]
async fn a_constraint_of_the_host_keeps_its_own_error() {
    let database = Database::new().await;
    database.execute("CREATE UNIQUE INDEX host_own ON adcp_proposal_drafts (media_buy_id)", &[]).await;
    proposal_in(&database.client, "consumed").await;
    for step in [draft("b", "p"), commit("b", "p")] {
        call(&database.client, &step).await.expect("it is in order");
    }
    let error = call(&database.client, "mark_consumed('b', 'p', 'mb_was_consumed')").await.expect_err("not unique");
    assert_eq!(error.sqlstate, "23505", "{error:?}");
}

#[tokio::test]
async fn what_is_malformed_is_refused_by_name() {
    let database = Database::new().await;
    proposal_in(&database.client, "draft").await;
    for (called, says) in [
        ("put_draft(null, 'p', '{}', '{}')", "p_account_id is null"),
        ("put_draft('a', null, '{}', '{}')", "p_proposal_id is null"),
        ("put_draft('a', 'p', '[]', '{}')", "p_recipes is not a JSON object"),
        ("put_draft('a', 'p', null, '{}')", "p_recipes is not a JSON object"),
        ("put_draft('a', 'p', '{\"p1\": {}, \"p2\": 7}', '{}')", "the recipe of product \"p2\""),
        ("put_draft('a', 'p', '{}', 'null')", "p_proposal_payload is not a JSON object"),
        ("put_draft('a', 'p', '{}', '{}', 0)", "p_recipe_schema_version"),
        ("commit_proposal(null, 'was_draft', now(), '{}')", "p_account_id is null"),
        ("commit_proposal('a', null, now(), '{}')", "p_proposal_id is null"),
        ("commit_proposal('a', 'was_draft', null, '{}')", "p_expires_at"),
        ("commit_proposal('a', 'was_draft', 'infinity', '{}')", "p_expires_at"),
        ("commit_proposal('a', 'was_draft', '0044-03-15 BC', '{}')", "p_expires_at"),
        ("commit_proposal('a', 'was_draft', now(), '[]')", "p_proposal_payload is not a JSON object"),
        ("finalize_consumption('a', 'was_draft', null)", "an argument is null"),
        ("mark_consumed(null, 'was_draft', 'mb')", "an argument is null"),
    ] {
        let refusal = refused(&database, called).await;
        assert_eq!(refusal.sqlstate, "OD201", "{called}: {refusal:?}");
        assert!(refusal.message.contains(says), "{called}: {refusal:?}");
    }
    assert_eq!(database.value::<i64>("SELECT count(*) FROM adcp_proposal_drafts", &[]).await, 1);
    assert_eq!(state(&database, "was_draft").await.as_deref(), Some("draft"));
}

#[tokio::test]
async fn one_account_neither_sees_nor_moves_the_proposals_of_another() {
    let database = Database::new().await;
    let client = &database.client;
    for from in ["draft", "committed", "consuming", "consumed"] {
        let id = proposal_in(client, from).await;
        let before: String =
            database.value("SELECT string_agg(t::text, ' ') FROM adcp_proposal_drafts AS t", &[]).await;
        for (called, sqlstate) in [
            (commit("b", &id), "OD204"),
            (format!("finalize_consumption('b', '{id}', 'mb_{id}')"), "OD204"),
            (format!("mark_consumed('b', '{id}', 'mb_{id}')"), "OD204"),
        ] {
            assert_eq!(call(client, &called).await.expect_err(&called).sqlstate, sqlstate, "{called}");
        }
        assert_eq!(reserve(client, "b", &id).await.expect_err("not theirs").sqlstate, "OD202");
        for called in [format!("release_consumption('b', '{id}')"), format!("discard_proposal('b', '{id}')")] {
            assert!(!call(client, &called).await.expect("no error, so that nothing is told"), "{called}");
        }
        let seen = "SELECT (SELECT count(*) FROM outboxd.get_proposal('b', $1)) \
                    + (SELECT count(*) FROM outboxd.get_proposal_by_media_buy('b', 'mb_' || $1))";
        assert_eq!(database.value::<i64>(seen, &[&id]).await, 0);
        let after: String = database.value("SELECT string_agg(t::text, ' ') FROM adcp_proposal_drafts AS t", &[]).await;
        assert_eq!(before, after, "{id}");
    }
    // The same ids are free to them.
    for step in [draft("b", "was_consumed"), commit("b", "was_consumed")] {
        assert!(call(client, &step).await.expect("it is in order"));
    }
    assert!(call(client, "mark_consumed('b', 'was_consumed', 'mb_was_consumed')").await.expect("it is in order"));
}

#[tokio::test]
async fn of_two_reservations_at_once_one_wins() {
    let database = Database::new().await;
    let (one, two) = (connect(&database.url).await, connect(&database.url).await);
    for round in 0..50 {
        let id = format!("p_{round}");
        for step in [draft("a", &id), commit("a", &id)] {
            call(&database.client, &step).await.expect("it is in order");
        }
        let outcomes = join!(reserve(&one, "a", &id), reserve(&two, "a", &id));
        match outcomes {
            (Ok(_), Err(refusal)) | (Err(refusal), Ok(_)) => assert_eq!(refusal.sqlstate, "OD203", "{refusal:?}"),
            other => panic!("round {round}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_second_reservation_waits_for_what_becomes_of_the_first() {
    let database = Database::new().await;
    let id = proposal_in(&database.client, "committed").await;
    let (mut first, second) = (connect(&database.url).await, connect(&database.url).await);
    for keeps in [false, true] {
        let holding = first.transaction().await.expect("it begins");
        holding.query_one("SELECT outboxd.try_reserve_consumption('a', $1)", &[&id]).await.expect("it is committed");
        let ending = async {
            let waiting =
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            eventually("the second waits", async || match database.value::<i64>(waiting, &[]).await {
                1 => Ok(()),
                other => Err(other),
            })
            .await;
            if keeps { holding.commit().await } else { holding.rollback().await }.expect("it ends");
        };
        let (outcome, ()) = join!(reserve(&second, "a", &id), ending);
        if keeps {
            assert_eq!(outcome.expect_err("the first has it").sqlstate, "OD203");
        } else {
            outcome.expect("the first gave up");
            assert!(
                call(&database.client, &format!("release_consumption('a', '{id}')")).await.expect("it is reserved")
            );
        }
    }
}

#[tokio::test]
async fn every_function_prepares_with_its_documented_types() {
    let database = Database::new().await;
    let columns = "account_id, proposal_id, state, recipes, proposal_payload, expires_at, media_buy_id, \
                   recipe_schema_version, created_at, updated_at";
    for statement in [
        "PREPARE a (text, text, jsonb, jsonb, integer) AS SELECT outboxd.put_draft($1, $2, $3, $4, $5)".to_string(),
        format!("PREPARE b (text, text) AS SELECT {columns} FROM outboxd.get_proposal($1, $2)"),
        format!("PREPARE c (text, text) AS SELECT {columns} FROM outboxd.get_proposal_by_media_buy($1, $2)"),
        "PREPARE d (text, text, timestamptz, jsonb) AS SELECT outboxd.commit_proposal($1, $2, $3, $4)".to_string(),
        format!("PREPARE e (text, text) AS SELECT {columns} FROM outboxd.try_reserve_consumption($1, $2)"),
        "PREPARE f (text, text, text) AS SELECT outboxd.finalize_consumption($1, $2, $3)".to_string(),
        "PREPARE g (text, text, text) AS SELECT outboxd.mark_consumed($1, $2, $3)".to_string(),
        "PREPARE h (text, text) AS SELECT outboxd.release_consumption($1, $2)".to_string(),
        "PREPARE i (text, text) AS SELECT outboxd.discard_proposal($1, $2)".to_string(),
        "EXECUTE a ('a', 'p', '{}', '{}', 1)".to_string(),
        "EXECUTE d ('a', 'p', '2031-01-01', '{}')".to_string(),
        "EXECUTE e ('a', 'p')".to_string(),
    ] {
        database.client.batch_execute(&statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
}

#[tokio::test]
async fn the_reference_is_kept() {
    let functions = [
        "put_draft",
        "get_proposal",
        "get_proposal_by_media_buy",
        "commit_proposal",
        "try_reserve_consumption",
        "finalize_consumption",
        "release_consumption",
        "mark_consumed",
        "discard_proposal",
    ];
    reference::assert_kept(&Database::new().await, "Proposals", &functions).await;
}

#[tokio::test]
async fn under_repeatable_read_the_loser_is_told_to_try_again() {
    let database = Database::new().await;
    let id = proposal_in(&database.client, "committed").await;
    let mut late = connect(&database.url).await;
    let late =
        late.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.expect("it begins");
    late.query_one("SELECT count(*) FROM outboxd.get_proposal('a', $1)", &[&id]).await.expect("it is there");
    reserve(&database.client, "a", &id).await.expect("it is committed");
    let sql = "SELECT outboxd.try_reserve_consumption('a', $1)";
    let error = late.query_one(sql, &[&id]).await.expect_err("its snapshot is behind");
    assert_eq!(Refusal::of(&error).sqlstate, "40001");
}
