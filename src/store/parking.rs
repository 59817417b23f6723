//! The list of parked destinations that the replicas of an outbox share. It judges none of them.

use std::time::Duration;

use super::claim::read;
use super::{Answer, Kind, Parameter, Store, StoreError};

/// A destination that this replica saw fail, or that asked to be left alone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewParked<'a> {
    pub(crate) destination: &'a str,
    pub(crate) seconds: f64,
    pub(crate) reason: &'static str,
    pub(crate) trips: i32,
}

/// One on the list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parked {
    pub(crate) destination: String,
    /// Zero for a half-open one that this replica may probe.
    pub(crate) left: Duration,
    pub(crate) reason: String,
    pub(crate) trips: i32,
}

/// What became of asking for a probe.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProbeAnswer {
    pub(crate) destination: String,
    pub(crate) won: bool,
    /// Where it was lost: until it may be asked for again.
    pub(crate) left: Duration,
}

/// One of those that an operator is shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShownDestination {
    pub(crate) destination: String,
    pub(crate) due: u64,
    /// Whether there are more than were counted.
    pub(crate) is_more: bool,
    /// How long the oldest of them has been due.
    pub(crate) due_for: Option<Duration>,
    pub(crate) parked: Option<ShownParked>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShownParked {
    pub(crate) left: Duration,
    pub(crate) since: Duration,
    pub(crate) reason: String,
    pub(crate) trips: i32,
    pub(crate) replica: String,
    pub(crate) prober: Option<String>,
}

impl Store {
    /// `sql/parking/find_parking.sql`: whether there is a list that we may use.
    pub(crate) async fn shares_parking(&self) -> Result<bool, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&self.table.as_str()];
        self.read_one(&self.statements.find_parking, &parameters, |answer| read(answer, "shares")).await
    }

    /// `sql/parking/park_destinations.sql`
    pub(crate) async fn park_destinations(&self, parked: &[NewParked<'_>], replica: &str) -> Result<(), StoreError> {
        if parked.is_empty() {
            return Ok(());
        }
        let destinations: Vec<&str> = parked.iter().map(|one| one.destination).collect();
        let seconds: Vec<f64> = parked.iter().map(|one| one.seconds).collect();
        let reasons: Vec<&str> = parked.iter().map(|one| one.reason).collect();
        let trips: Vec<i32> = parked.iter().map(|one| one.trips).collect();
        let parameters: [Parameter<'_>; 5] = [&destinations, &seconds, &reasons, &trips, &replica];
        self.read_all(&self.statements.park_destinations, &parameters, |_| Ok(())).await.map(drop)
    }

    /// `sql/parking/let_go_destinations.sql`
    pub(crate) async fn let_go_destinations(&self, destinations: &[&str], replica: &str) -> Result<(), StoreError> {
        if destinations.is_empty() {
            return Ok(());
        }
        let parameters: [Parameter<'_>; 2] = [&destinations, &replica];
        self.read_all(&self.statements.let_go_destinations, &parameters, |_| Ok(())).await.map(drop)
    }

    /// `sql/parking/forget_parked.sql`
    pub(crate) async fn forget_parked(&self) -> Result<(), StoreError> {
        self.read_all(&self.statements.forget_parked, &[], |_| Ok(())).await.map(drop)
    }

    /// `sql/parking/read_parked.sql`; as many as `limit`: there is probably more.
    pub(crate) async fn read_parked(&self, limit: u32, replica: &str) -> Result<Vec<Parked>, StoreError> {
        let parameters: [Parameter<'_>; 2] = [&i64::from(limit), &replica];
        self.read_all(&self.statements.read_parked, &parameters, |answer| {
            Ok(Parked {
                destination: read(answer, "destination")?,
                left: span(read(answer, "seconds_left")?),
                reason: read(answer, "reason")?,
                trips: read(answer, "trips")?,
            })
        })
        .await
    }

    /// `sql/parking/claim_probes.sql`
    pub(crate) async fn claim_probes(
        &self,
        destinations: &[String],
        replica: &str,
        lasts: Duration,
    ) -> Result<Vec<ProbeAnswer>, StoreError> {
        let parameters: [Parameter<'_>; 3] = [&destinations, &replica, &lasts.as_secs_f64()];
        self.read_all(&self.statements.claim_probes, &parameters, |answer| {
            Ok(ProbeAnswer {
                destination: read(answer, "destination")?,
                won: read(answer, "won")?,
                left: span(read(answer, "seconds_left")?),
            })
        })
        .await
    }

    /// `sql/parking/list_destinations.sql`: how many are looked at, due rows counted, destinations shown at most; and whether
    /// there are others that were not looked at. By the index by destination, or for long.
    pub(crate) async fn list_destinations(
        &self,
        looked_at: u32,
        rows: u32,
        shown: u32,
    ) -> Result<(Vec<ShownDestination>, bool), StoreError> {
        let parameters: [Parameter<'_>; 3] = [&i64::from(looked_at), &i64::from(rows), &i64::from(shown)];
        let read_both = |answer: &Answer| Ok((read_shown(answer)?, read(answer, "are_more")?));
        let answers = self.read_all(&self.statements.list_destinations, &parameters, read_both).await?;
        let are_more = answers.iter().any(|(_, are_more)| *are_more);
        Ok((answers.into_iter().map(|(shown, _)| shown).collect(), are_more))
    }
}

fn read_shown(answer: &Answer) -> Result<ShownDestination, Kind> {
    let left: Option<f64> = read(answer, "seconds_left")?;
    let parked = left.map(|_| read_shown_parked(answer)).transpose()?;
    let due_for: Option<f64> = read(answer, "seconds_due")?;
    Ok(ShownDestination {
        destination: read(answer, "destination")?,
        due: read::<i64>(answer, "due")?.unsigned_abs(),
        is_more: read(answer, "is_more")?,
        due_for: due_for.map(span),
        parked,
    })
}

pub(super) fn read_shown_parked(answer: &Answer) -> Result<ShownParked, Kind> {
    Ok(ShownParked {
        left: span(read(answer, "seconds_left")?),
        since: span(read(answer, "seconds_parked")?),
        reason: read(answer, "reason")?,
        trips: read(answer, "trips")?,
        replica: read(answer, "replica")?,
        prober: read(answer, "prober")?,
    })
}

/// What has passed is no span any more.
fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
