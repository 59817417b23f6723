//! Whether the name servers answer at all: one judgement that every delivery shares, so that their outage costs no row an
//! attempt. Looks up no receiver's name, and claims and settles nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Snapshot;
use crate::address::Resolver;
use crate::telemetry::health::{Condition, Health};
use crate::telemetry::metrics;

/// How long the name servers have for the question whether they live. Within the part of a lease that an attempt leaves
/// over, since an attempt that was cut off at its deadline waits for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often they are asked again while they are silent.
const AGAIN: Duration = Duration::from_secs(2);

pub(crate) struct ResolverWatch {
    health: Arc<Health>,
    down: AtomicBool,
    /// How many answers there had been when they fell silent.
    answered: AtomicU64,
    went_down: Notify,
    /// When the last outage ended, and by that whether a failed lookup had anything to do with it.
    ended: Mutex<Option<Instant>>,
    /// When the last question that stayed without an answer was put. Held while one is put, so that lookups that fail
    /// together put one.
    unanswered: tokio::sync::Mutex<Option<Instant>>,
}

impl ResolverWatch {
    /// Watches until the process ends.
    pub(crate) fn start(health: Arc<Health>, snapshot: Arc<ArcSwap<Snapshot>>) -> Arc<ResolverWatch> {
        let watch = ResolverWatch::new(health);
        let watching = watch.clone();
        tokio::spawn(async move { watching.run(snapshot).await });
        watch
    }

    fn new(health: Arc<Health>) -> Arc<ResolverWatch> {
        Arc::new(ResolverWatch {
            health,
            down: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            went_down: Notify::new(),
            ended: Mutex::default(),
            unanswered: tokio::sync::Mutex::default(),
        })
    }

    /// Whether a lookup that began then, and came to nothing, says nothing about its name: the name servers were silent
    /// at some time since.
    pub(super) async fn explains(&self, resolver: &Resolver, began: Instant) -> bool {
        if self.was_down_since(began) {
            return true;
        }
        let mut unanswered = self.unanswered.lock().await;
        if self.was_down_since(began) || unanswered.is_some_and(|put| put >= began) {
            return true;
        }
        let put = Instant::now();
        if resolver.is_alive(PATIENCE).await {
            return false;
        }
        *unanswered = Some(put);
        self.fell_silent(resolver.answered());
        true
    }

    fn was_down_since(&self, began: Instant) -> bool {
        let ended = *self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_down() || ended.is_some_and(|ended| ended >= began)
    }

    fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    fn fell_silent(&self, answered: u64) {
        self.answered.store(answered, Ordering::Release);
        if self.down.swap(true, Ordering::AcqRel) {
            return;
        }
        metrics::resolver_down(true);
        self.health.set(Condition::Resolver, Some("the name servers answer nothing; nothing is claimed".into()));
        tracing::error!("the name servers answer nothing; claiming stops until they do");
        self.went_down.notify_one();
    }

    /// They have given this many answers by now. A lookup that began before they fell silent brings none that is new.
    pub(super) fn heard(&self, answered: u64) {
        if self.is_down() && answered != self.answered.load(Ordering::Acquire) {
            self.spoke();
        }
    }

    fn spoke(&self) {
        // First, so that whoever sees the outage over also sees when it ended.
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        if self.down.swap(false, Ordering::AcqRel) {
            metrics::resolver_down(false);
            self.health.set(Condition::Resolver, None);
            tracing::info!("the name servers answer again");
        }
    }

    /// Asks again and again while they are silent.
    async fn run(&self, snapshot: Arc<ArcSwap<Snapshot>>) {
        loop {
            self.went_down.notified().await;
            while self.is_down() {
                tokio::time::sleep(AGAIN).await;
                if snapshot.load_full().resolver.is_alive(PATIENCE).await {
                    self.spoke();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hickory_resolver::proto::op::ResponseCode;

    use super::*;
    use crate::address::name_server::{Answer, NameServer};

    const CODE: fn(bool) -> ResponseCode = |alive| if alive { ResponseCode::NXDomain } else { ResponseCode::ServFail };

    /// A server that a test can break and mend, and what is known of it.
    async fn watched(alive: bool) -> (Arc<ResolverWatch>, Arc<Health>, NameServer, Arc<AtomicBool>) {
        let health = Arc::new(Health::new(Duration::from_secs(60), &[], &[]));
        let alive = Arc::new(AtomicBool::new(alive));
        let answering = alive.clone();
        let server = NameServer::start(move |_, _, _| Answer::Code(CODE(answering.load(Ordering::SeqCst)))).await;
        (ResolverWatch::new(health.clone()), health, server, alive)
    }

    #[tokio::test]
    async fn a_failed_lookup_is_explained_by_silence_alone() {
        let (watch, health, server, alive) = watched(true).await;
        let resolver = server.resolver();
        assert!(!watch.explains(&resolver, Instant::now()).await);
        assert!(health.ready().is_ok());
        alive.store(false, Ordering::SeqCst);
        assert!(watch.explains(&resolver, Instant::now()).await);
        assert!(health.ready().unwrap_err().starts_with("resolver: the name servers answer nothing"));
    }

    #[tokio::test]
    async fn lookups_that_fail_together_ask_together() {
        let (watch, _, server, _) = watched(false).await;
        let (resolver, began) = (server.resolver(), Instant::now());
        // One question, and again as often as the resolver asks anything that it was not told.
        let alone = {
            resolver.is_alive(PATIENCE).await;
            server.questions()
        };
        let asked = futures_util::future::join_all((0..50).map(|_| watch.explains(&resolver, began))).await;
        assert!(asked.into_iter().all(|explained| explained));
        assert_eq!(server.questions(), 2 * alone);
    }

    #[tokio::test]
    async fn what_began_in_an_outage_is_explained_by_it_after_its_end_too() {
        let (watch, health, server, alive) = watched(false).await;
        let (resolver, before) = (server.resolver(), Instant::now());
        assert!(watch.explains(&resolver, before).await);
        alive.store(true, Ordering::SeqCst);
        watch.spoke();
        assert!(health.ready().is_ok());
        assert!(watch.explains(&resolver, before).await);
        assert!(!watch.explains(&resolver, Instant::now()).await);
        assert!(health.ready().is_ok());
    }

    #[tokio::test]
    async fn an_answer_from_before_the_silence_does_not_end_it() {
        let (watch, health, server, alive) = watched(true).await;
        let resolver = server.resolver();
        resolver.is_alive(PATIENCE).await;
        alive.store(false, Ordering::SeqCst);
        assert!(watch.explains(&resolver, Instant::now()).await);
        watch.heard(resolver.answered());
        assert!(health.ready().is_err());
        alive.store(true, Ordering::SeqCst);
        resolver.is_alive(PATIENCE).await;
        watch.heard(resolver.answered());
        assert!(health.ready().is_ok());
    }
}
