//! What a scenario comes to: figures, a table of them, and whether the demands that it measures are met.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::figures::table;

#[derive(Serialize, Deserialize)]
pub struct Outcome {
    /// Its file's name.
    pub name: String,
    /// In Markdown: what was done, and a table.
    pub text: String,
    pub demands: Vec<Demand>,
    pub figures: Value,
}

#[derive(Serialize, Deserialize)]
pub struct Demand {
    demand: String,
    measured: String,
    met: bool,
}

/// An outcome as it is kept.
#[derive(Serialize, Deserialize)]
pub struct Record {
    pub machine: String,
    /// What this program was called with.
    pub arguments: Vec<String>,
    pub outcome: Outcome,
}

impl Demand {
    pub fn at_least(demand: &str, least: f64, measured: f64, unit: &str) -> Demand {
        Demand::new(demand, measured >= least, measured, unit)
    }

    pub fn at_most(demand: &str, most: f64, measured: f64, unit: &str) -> Demand {
        Demand::new(demand, measured <= most, measured, unit)
    }

    fn new(demand: &str, met: bool, measured: f64, unit: &str) -> Demand {
        let digits = match measured.abs() {
            100.0.. => 0,
            1.0.. => 2,
            _ => 4,
        };
        let space = if unit.is_empty() || unit == "%" { "" } else { " " };
        Demand { demand: demand.into(), measured: format!("{measured:.digits$}{space}{unit}"), met }
    }
}

fn verdicts(demands: &[Demand]) -> String {
    let rows: Vec<Vec<String>> = demands
        .iter()
        .map(|demand| {
            let met = if demand.met { "pass" } else { "FAIL" };
            vec![demand.demand.clone(), demand.measured.clone(), met.into()]
        })
        .collect();
    table(&["demand", "measured", ""], &rows)
}

impl Outcome {
    pub fn to_markdown(&self) -> String {
        let mut text = format!("{}\n", self.text);
        if !self.demands.is_empty() {
            let _ = write!(text, "\n{}", verdicts(&self.demands));
        }
        text
    }
}

impl Record {
    pub fn read(path: &Path) -> Option<Record> {
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
    }

    pub fn write(&self, directory: &Path) {
        fs::create_dir_all(directory).expect("the directory can be made");
        let path = directory.join(format!("{}.json", self.outcome.name));
        let text = serde_json::to_string_pretty(self).expect("figures are JSON");
        fs::write(&path, text).expect("the directory is ours");
        println!("figures: {}", path.display());
    }
}

/// Everything that was measured so far, as the README shows it: in the order in which it is measured, demands at the end.
pub fn report(directory: &Path, order: &[&str]) -> String {
    let mut text = String::new();
    let mut demands = Vec::new();
    let mut machine = String::new();
    for name in order {
        let Some(record) = Record::read(&directory.join(format!("{name}.json"))) else { continue };
        if record.machine != machine {
            let _ = write!(text, "({})\n\n", record.machine);
            machine = record.machine;
        }
        let _ = write!(text, "{}\n\n", record.outcome.text.trim_end());
        demands.extend(record.outcome.demands);
    }
    if !demands.is_empty() {
        let _ = write!(text, "{}", verdicts(&demands));
    }
    text
}
