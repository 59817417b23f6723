//! What a large table costs: claims with due rows of a destination at its cap in front of those that are claimed, and
//! throughput beside rows that are kept after their delivery.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_postgres::types::ToSql;

use super::Bed;
use super::contenders::{Contender, Running};
use super::feed::{Delays, Feed, quantile};
use super::figures::{Spread, table};
use super::outcome::{Demand, Outcome};
use super::throughput::{measured, turn, under_way, wanted};

/// Its answers take so long that its few attempts at once are always under way.
const CAPPED: usize = 1;
const SLOWNESS: Duration = Duration::from_secs(5);
const DELIVERY: &str = "per_destination = 16\nper_destination_start = 16\n";
const OTHERS: std::ops::Range<usize> = 2..22;
/// Rows a second for the others together.
const RATE: f64 = 200.0;
/// Of a claim's text and of no other statement's.
const CLAIMS: &str = "attempt_count + 1";
/// Rows are made and inserted so many at a time.
const CHUNK: usize = 20_000;
const SLOTS: usize = 128;

#[derive(clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 1000)]
    few: usize,
    #[arg(long, default_value_t = 1_000_000)]
    many: usize,
    /// How long claims are measured, and how long they settle before.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    #[arg(long, default_value_t = 10.0)]
    settle: f64,
    /// Turns with and without rows that are kept: many, since what they cost is less than what turns differ by.
    #[arg(long, default_value_t = 11)]
    turns: usize,
    #[arg(long, default_value_t = 3.0)]
    window: f64,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    rows_in_front: usize,
    statements: usize,
    p50: f64,
    p95: f64,
    most: f64,
    /// Of the other destinations' rows.
    delays: Delays,
}

#[derive(Serialize, Deserialize)]
struct Figures {
    claims: Vec<Claims>,
    without: Vec<f64>,
    with: Vec<f64>,
}

pub async fn run(bed: &mut Bed, arguments: &Arguments) -> Outcome {
    let few = claims(bed, arguments, arguments.few).await;
    let many = claims(bed, arguments, arguments.many).await;
    let (without, with) = retained(bed, arguments).await;
    let lost: Vec<f64> = without.iter().zip(&with).map(|(without, with)| 100.0 * (1.0 - with / without)).collect();
    let (times, lost) = (many.p95 / few.p95, Spread::of(&lost));
    let demands = vec![
        Demand::at_most(
            &format!(
                "claim p95 with {} due rows of a capped destination in front at most 2 times that with {}",
                many.rows_in_front, few.rows_in_front
            ),
            2.0,
            times,
            "times",
        ),
        Demand::at_most(
            &format!("{} delivered rows that are kept cost under 5 % of throughput", arguments.many),
            5.0,
            lost.median,
            "%",
        ),
    ];
    let row = |claims: &Claims| {
        vec![
            claims.rows_in_front.to_string(),
            claims.statements.to_string(),
            format!("{:.2}", claims.p50),
            format!("{:.2}", claims.p95),
            format!("{:.2}", claims.most),
            format!("{:.1}", claims.delays.p50),
            format!("{:.1}", claims.delays.p95),
        ]
    };
    let head = [
        "due rows in front",
        "claims",
        "p50 ms",
        "p95 ms",
        "most ms",
        "others' receipt p50 ms",
        "others' receipt p95 ms",
    ];
    let text = format!(
        "Claims, in Postgres' own log, of {RATE} rows/s to 20 destinations behind due rows of one that is at its cap of 16:\n\n{}\n\
         Throughput with {} delivered rows in the table and with none, in turns: {:.0}/s and {:.0}/s, {lost:.1} % less \
         (receiver at 0 ms, {SLOTS} slots).",
        table(&head, &[row(&few), row(&many)]),
        arguments.many,
        Spread::of(&with),
        Spread::of(&without),
    );
    let figures = Figures { claims: vec![few, many], without, with };
    let figures = serde_json::to_value(figures).expect("figures are JSON");
    Outcome { name: "growth".into(), text, demands, figures }
}

async fn claims(bed: &mut Bed, arguments: &Arguments, rows_in_front: usize) -> Claims {
    const LOG: &str = "alter database measured set log_min_duration_statement = 0";
    const WITHOUT_BODIES: &str = "alter database measured set log_parameter_max_length = 0";
    println!("inserting {rows_in_front} due rows of one destination");
    bed.outbox.empty().await;
    let mut row = 0;
    while row < rows_in_front {
        let next = rows_in_front.min(row + CHUNK);
        bed.outbox.add(&bed.outbox.seal((row..next).map(|row| bed.receiver.url_at(CAPPED, row)))).await;
        row = next;
    }
    bed.outbox.execute("vacuum analyze adcp_task_webhook_outbox").await;
    let time = arguments.settle + arguments.seconds;
    bed.receiver.reset(rows_in_front + (time * RATE) as usize + 10, Duration::ZERO);
    bed.receiver.behave(CAPPED, Some(SLOWNESS));
    bed.outbox.execute(LOG).await;
    bed.outbox.execute(WITHOUT_BODIES).await;
    let mut running = Running::outboxd(bed, DELIVERY);
    under_way(bed, &mut running, 1).await;
    let ports: Vec<usize> = OTHERS.collect();
    let mut feed = Feed::new(bed, rows_in_front, true).await;
    feed.steadily(bed, RATE, &ports, Duration::from_secs_f64(arguments.settle)).await;
    let (from, logged) = (feed.sent(), bed.outbox.log().len());
    feed.steadily(bed, RATE, &ports, Duration::from_secs_f64(arguments.seconds)).await;
    running.assert_running();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut took = durations(&bed.outbox.log()[logged..]);
    let delays = feed.delays(&bed.receiver.times(), from);
    running.stop();
    bed.outbox.execute("alter database measured reset all").await;
    assert!(!took.is_empty(), "no claim was logged");
    took.sort_by(f64::total_cmp);
    Claims {
        rows_in_front,
        statements: took.len(),
        p50: quantile(&took, 0.5),
        p95: quantile(&took, 0.95),
        most: quantile(&took, 1.0),
        delays,
    }
}

/// Milliseconds of each claim in a log: of its binding, which plans it, and its execution together.
fn durations(log: &str) -> Vec<f64> {
    let mut bound: HashMap<&str, f64> = HashMap::new();
    let mut took = Vec::new();
    // An entry's further lines begin with a tab.
    let mut entries: Vec<(usize, &str)> = Vec::new();
    for line in log.lines() {
        let start = line.as_ptr() as usize - log.as_ptr() as usize;
        if !line.starts_with('\t') {
            entries.push((start, line));
        }
    }
    for (nth, (start, line)) in entries.iter().enumerate() {
        let end = entries.get(nth + 1).map_or(log.len(), |(next, _)| *next);
        let Some((head, rest)) = line.split_once("LOG:  duration: ") else { continue };
        let Some((milliseconds, what)) = rest.split_once(" ms  ") else { continue };
        let Ok(milliseconds) = milliseconds.parse::<f64>() else { continue };
        let pid = head.split(['[', ']']).nth(1).unwrap_or_default();
        if !log[*start..end].contains(CLAIMS) {
            continue;
        }
        if what.starts_with("bind") {
            bound.insert(pid, milliseconds);
        } else if what.starts_with("execute") {
            took.push(milliseconds + bound.remove(pid).unwrap_or_default());
        }
    }
    took
}

/// Deliveries a second without and with rows that are kept, in turns: two databases of one server.
async fn retained(bed: &mut Bed, arguments: &Arguments) -> (Vec<f64>, Vec<f64>) {
    let contender = Contender::Outboxd { processes: 1, slots: SLOTS };
    let count = wanted(&contender, Duration::ZERO, arguments.window);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    bed.outbox.empty().await;
    let mut kept = bed.outbox.beside().await;
    println!("inserting {} delivered rows", arguments.many);
    keep(&kept, arguments.many).await;
    for nth in 0..arguments.turns {
        for place in 0..2 {
            // They are not to be the same as those of an earlier turn that were kept.
            let rows = bed.outbox.seal((0..count).map(|row| bed.receiver.url(row)));
            if (nth + place) % 2 == 0 {
                let turn = turn(bed, &contender, Duration::ZERO, arguments.window, &rows).await;
                without.push(turn.rate);
            } else {
                std::mem::swap(&mut bed.outbox, &mut kept);
                bed.outbox.execute("delete from adcp_task_webhook_outbox where state <> 'delivered'").await;
                bed.outbox.execute("checkpoint").await;
                bed.outbox.add(&rows).await;
                bed.outbox.execute("vacuum analyze adcp_task_webhook_outbox").await;
                let turn = measured(bed, &contender, Duration::ZERO, arguments.window, &rows).await;
                with.push(turn.rate);
                std::mem::swap(&mut bed.outbox, &mut kept);
            }
        }
        if let (Some(without), Some(with)) = (without.last(), with.last()) {
            println!("turn {}: {without:.0}/s without, {with:.0}/s beside them", nth + 1);
        }
    }
    (without, with)
}

/// Rows as deliveries leave them, a day before they may be purged.
async fn keep(outbox: &super::outbox::Outbox, count: usize) {
    const INSERT: &str = "
        insert into adcp_task_webhook_outbox
               (task_id, account_id, task_type, terminal_status, url, operation_id, idempotency_key, encrypted_body,
                envelope_nonce, state, attempt_count, first_attempt_at, retry_until, retry_horizon_seconds, delivered_at,
                last_http_status)
        select 'kept_' || n, 'acc_1', 'create_media_buy', 'completed', 'https://127.0.0.1:1/rows/' || n, 'op_' || n,
               'whk_kept_' || md5(n::text), $3, $4, 'delivered', 1, now(), now() + interval '1 day', 86400, now(), 200
          from generate_series($1::bigint, $2::bigint) as n";
    let like = outbox.seal(["https://127.0.0.1:1/rows/1".to_string()].into_iter());
    let insert = outbox.client.prepare(INSERT).await.expect("the table is there");
    let mut row = 0;
    while row < count {
        let next = count.min(row + CHUNK);
        let (first, last) = (row as i64, next as i64 - 1);
        let values: [&(dyn ToSql + Sync); 4] = [&first, &last, &like[0].encrypted_body, &like[0].envelope_nonce];
        outbox.client.execute(&insert, &values).await.expect("the rows are lawful");
        row = next;
    }
    outbox.execute("vacuum analyze adcp_task_webhook_outbox").await;
}
