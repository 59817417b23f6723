//! Fills in what the composed rows of a batch are rendered from. Renders nothing.

use std::time::Duration;

use crate::store::{Broken, Claimed, GivenBack, ReadComposed, Store};

/// Reads what the composed rows of a batch are rendered from, in one question. A batch without any asks nothing, so that
/// tables which know no composed rows are served too.
pub(super) async fn fill_composed(store: &Store, batch: Vec<Claimed>, room: usize) -> Vec<Claimed> {
    let tasks: Vec<String> = batch.iter().filter_map(composed_task).map(str::to_owned).collect();
    if tasks.is_empty() {
        return batch;
    }
    let mut read = match store.read_composed(&tasks, room as u64).await {
        Ok(read) => read,
        Err(error) => {
            tracing::error!(%error, rows = tasks.len(), "composed rows could not be read; they wait for their leases' end");
            return batch.into_iter().filter(|claimed| composed_task(claimed).is_none()).collect();
        }
    };
    let (mut filled, mut given_back) = (Vec::with_capacity(batch.len()), Vec::new());
    for claimed in batch {
        let (lease, mut row, facts) = match claimed {
            Claimed::Whole { lease, row, facts } if facts.composed => (lease, row, facts),
            other => {
                filled.push(other);
                continue;
            }
        };
        match read.remove(&row.task_id) {
            Some(ReadComposed::Whole(composed)) => {
                row.composed = Some(composed);
                filled.push(Claimed::Whole { lease, row, facts });
            }
            Some(ReadComposed::NoRoom) => given_back.push(GivenBack { lease, delay: Duration::ZERO }),
            None => filled.push(Claimed::Broken { lease, reason: Broken::NothingComposed }),
        }
    }
    if let Err(error) = store.give_back(&given_back).await {
        tracing::warn!(%error, rows = given_back.len(), "rows without room wait for their leases' end");
    }
    filled
}

fn composed_task(claimed: &Claimed) -> Option<&str> {
    match claimed {
        Claimed::Whole { row, facts, .. } if facts.composed => Some(&row.task_id),
        _ => None,
    }
}
