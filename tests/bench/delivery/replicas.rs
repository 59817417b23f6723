//! Many processes on one table: whether they add up, and what it is that ends it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_postgres::Client;

use super::Bed;
use super::contenders::Contender;
use super::figures::{Spread, table};
use super::outcome::Outcome;
use super::throughput::{Turn, turn, wanted};

const SAMPLES: Duration = Duration::from_millis(25);
/// Of the cores, what is as good as all.
const BUSY: f64 = 0.9;

#[derive(clap::Args)]
pub struct Arguments {
    /// So many processes; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    processes: Vec<usize>,
    /// Slots of each.
    #[arg(long, default_value_t = 128)]
    slots: usize,
    #[arg(long, default_value_t = 3)]
    turns: usize,
    #[arg(long, default_value_t = 3.0)]
    window: f64,
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
}

/// What so many processes did.
#[derive(Serialize, Deserialize)]
struct Line {
    processes: usize,
    turns: Vec<Turn>,
    /// What active backends were seen to wait for, and how often.
    waits: BTreeMap<String, i64>,
}

pub async fn run(bed: &mut Bed, arguments: &Arguments) -> Outcome {
    let delay = Duration::from_millis(arguments.delay_ms);
    let contender = |processes| Contender::Outboxd { processes, slots: arguments.slots };
    let most = arguments.processes.iter().map(|n| wanted(&contender(*n), delay, arguments.window)).max();
    let rows = bed.outbox.seal((0..most.unwrap_or_default()).map(|row| bed.receiver.url(row)));
    let new = |processes: &usize| Line { processes: *processes, turns: Vec::new(), waits: BTreeMap::new() };
    let mut lines: Vec<Line> = arguments.processes.iter().map(new).collect();
    for nth in 0..arguments.turns {
        let count = lines.len();
        for place in 0..count {
            let line = &mut lines[(nth + place) % count];
            let contender = contender(line.processes);
            let sampler = bed.outbox.connection().await;
            let sampling = sample(&sampler, &mut line.waits);
            let turn = tokio::select! {
                turn = turn(bed, &contender, delay, arguments.window, &rows) => turn,
                () = sampling => unreachable!("sampling does not end"),
            };
            println!("{} processes: {:.0}/s", line.processes, turn.rate);
            line.turns.push(turn);
        }
    }
    let text = format!(
        "Processes of {} slots each on one table; receiver at {} ms; medians of {} turns (least-most). Cores: of outboxd, Postgres, \
         the receiver, and of whatever else ran.\n\n{}",
        arguments.slots,
        arguments.delay_ms,
        arguments.turns,
        lines_table(&lines)
    );
    let figures = serde_json::to_value(&lines).expect("figures are JSON");
    Outcome { name: "replicas".into(), text, demands: Vec::new(), figures }
}

async fn sample(client: &Client, waits: &mut BTreeMap<String, i64>) {
    const SQL: &str = "select coalesce(wait_event_type || ' ' || wait_event, 'a processor'), count(*)
                         from pg_stat_activity
                        where application_name = 'outboxd' and state = 'active' group by 1";
    loop {
        for row in client.query(SQL, &[]).await.expect("it answers") {
            *waits.entry(row.get(0)).or_default() += row.get::<_, i64>(1);
        }
        tokio::time::sleep(SAMPLES).await;
    }
}

fn lines_table(lines: &[Line]) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let first = lines.first().map_or(f64::NAN, |line| line.median(|turn| turn.rate));
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let used = |ms: fn(&Turn) -> f64| line.median(|turn| ms(turn) * turn.rate / 1000.0);
            let (own, postgres, receiver) =
                (used(|turn| turn.own_ms), used(|turn| turn.postgres_ms), used(|turn| turn.receiver_ms));
            let elsewhere = line.median(|turn| turn.elsewhere);
            let total: i64 = line.waits.values().sum();
            let most = line.waits.iter().max_by_key(|(_, count)| **count);
            let waits = most.map_or_else(String::new, |(wait, count)| format!("{wait} ({} %)", 100 * count / total));
            let busy = own + postgres + receiver + elsewhere;
            let end = if busy >= BUSY * cores {
                let largest =
                    [("outboxd", own), ("Postgres", postgres), ("the receiver", receiver), ("others", elsewhere)];
                let largest = largest.into_iter().max_by(|one, other| one.1.total_cmp(&other.1));
                format!("processors, mostly {}", largest.map_or("", |(name, _)| name))
            } else {
                "waiting".into()
            };
            let rate = line.spread(|turn| turn.rate);
            vec![
                line.processes.to_string(),
                format!("{rate:.0}"),
                format!("{:.2} times", rate.median / first),
                format!("{own:.2} + {postgres:.2} + {receiver:.2} + {elsewhere:.2} of {cores}"),
                waits,
                end,
            ]
        })
        .collect();
    let head = ["processes", "deliveries/s", "of the first", "cores", "Postgres' backends mostly on", "ended by"];
    table(&head, &rows)
}

impl Line {
    fn spread(&self, figure: impl Fn(&Turn) -> f64) -> Spread {
        Spread::of(&self.turns.iter().map(figure).collect::<Vec<_>>())
    }

    fn median(&self, figure: impl Fn(&Turn) -> f64) -> f64 {
        self.spread(figure).median
    }
}
