//! Signers by scope, from the table where they lie sealed: opened once, held for a while, and asked after together, in one
//! statement for all that is held and all that is wanted. It writes nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::keys::{SigningKeys, TimedKey, Window};
use super::known::KnownKids;
use super::{Found, ResolveError, Roster, ScopeFault, Signer, scope};
use crate::certificate::ClientIdentity;
use crate::envelope::{Aad, Keyring, open_held};
use crate::signature::{Algorithm, Algorithms, SigningKey};
use crate::store::{ChangedScope, Store, StoreError, StoredKey, StoredScope};

/// What is older is asked after before it is used. Less than the 5 s that a change may take, by what the question takes.
const FRESH: Duration = Duration::from_secs(4);
/// For as long as the table cannot be read, what was read last is good, and no longer.
const GRACE: Duration = Duration::from_secs(60);
/// How long an attempt waits for an answer: well within its own deadline.
const PATIENCE: Duration = Duration::from_secs(2);
/// After a failure nobody asks for so long: otherwise each attempt would wait for a database that does not answer.
const REST: Duration = Duration::from_secs(1);
/// What nobody has used for so long is forgotten, and read again when somebody does.
const UNUSED: Duration = Duration::from_secs(600);
/// As in the directory: enough for any working set. Those used longest ago go first.
const MAX_HELD: usize = 4096;
/// Scopes read at once for the list of all of them.
const PAGE: u32 = 1000;
/// As in the directory: of a longer list the rest is not told.
const MAX_LISTED: usize = 100_000;
/// What a fault of no one scope is told by.
const TABLE: &str = "the table of signing scopes";

#[derive(Clone)]
pub(crate) struct ScopeTable {
    store: Arc<Store>,
    keyring: Arc<Keyring>,
    default_scope: Option<String>,
    known: Arc<KnownKids>,
    memory: Arc<Memory>,
}

struct Memory {
    state: Mutex<State>,
    /// Counts the questions that came to an end.
    rounds: watch::Sender<u64>,
    /// Told when a scope was found changed.
    news: Notify,
    /// Every scope of the table, for whoever lists them. Held while they are read.
    all: tokio::sync::Mutex<BTreeMap<String, Held>>,
}

#[derive(Default)]
struct State {
    held: HashMap<String, Held>,
    /// Who is not held and was asked for.
    wanted: HashSet<String>,
    /// When the last question that was answered was asked: everything that is held was so then.
    as_of: Option<Instant>,
    failed_at: Option<Instant>,
    asking: bool,
}

#[derive(Clone)]
struct Held {
    stamp: String,
    found: Result<Found, ResolveError>,
    used: Instant,
}

/// What a statement is to ask.
struct Questions {
    /// Scopes, each with the stamp that it is held under.
    about: Vec<(String, String)>,
    /// Whether nothing is left out that is held.
    all: bool,
}

impl ScopeTable {
    /// `known` outlives the table's memory, so that a reload forgets no key id.
    pub(crate) fn new(
        store: Arc<Store>,
        keyring: Arc<Keyring>,
        default_scope: Option<String>,
        known: Arc<KnownKids>,
    ) -> ScopeTable {
        let memory = Memory {
            state: Mutex::default(),
            rounds: watch::Sender::new(0),
            news: Notify::new(),
            all: tokio::sync::Mutex::default(),
        };
        ScopeTable { store, keyring, default_scope, known, memory: Arc::new(memory) }
    }

    /// Whether rows without a scope are signed.
    pub(crate) fn has_default(&self) -> bool {
        self.default_scope.is_some()
    }

    /// Takes over what an earlier one holds, and that it could not ask, so that a reload while the database is away costs
    /// nothing. What that one could not open is asked for again: the key that it lacked may be here.
    pub(crate) fn inherit(&self, earlier: &ScopeTable) {
        let earlier = earlier.memory.lock();
        let good = earlier.held.iter().filter(|(_, held)| held.found.is_ok());
        let held = good.map(|(scope, held)| (scope.clone(), held.clone())).collect();
        let (as_of, failed_at) = (earlier.as_of, earlier.failed_at);
        *self.memory.lock() = State { held, as_of, failed_at, ..State::default() };
    }

    /// Resolves when a scope was found changed, once for each wait.
    pub(super) async fn news(&self) {
        self.memory.news.notified().await;
    }

    pub(super) async fn resolve(&self, scope: Option<&str>) -> Result<(Signer, Algorithms), ResolveError> {
        let scope = scope::chosen(scope, self.default_scope.as_deref())?;
        self.find(scope).await?.signer()
    }

    async fn find(&self, scope: &str) -> Result<Found, ResolveError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut rounds = self.memory.rounds.subscribe();
            {
                let mut state = self.memory.lock();
                if let Some(found) = state.recall(scope, FRESH) {
                    return found;
                }
                let resting = state.failed_at.is_some_and(|at| at.elapsed() < REST);
                if !resting {
                    state.want(scope);
                    if !std::mem::replace(&mut state.asking, true) {
                        // By itself, so that nobody who loses patience takes the answer away from the others.
                        tokio::spawn(self.clone().ask());
                    }
                }
                // While the database is away, nobody waits for it who can go on without.
                if state.failed_at.is_some()
                    && let Some(found) = state.recall(scope, GRACE)
                {
                    return found;
                }
                if resting {
                    break;
                }
            }
            // A question that was under way already may not have been about this scope: the next one is.
            if timeout_at(deadline, rounds.changed()).await.is_err() {
                break;
            }
        }
        let held = self.memory.lock().recall(scope, GRACE);
        held.unwrap_or(Err(ResolveError::Unavailable(ScopeFault::Unread)))
    }

    async fn ask(self) {
        let _round = Round(&self.memory);
        let began = Instant::now();
        let Questions { about, all } = self.memory.lock().questions();
        let opened = match self.read(&about).await {
            Ok(opened) => opened,
            Err(error) => {
                if self.memory.lock().failed_at.replace(Instant::now()).is_none() {
                    tracing::warn!(%error, "signing scopes cannot be read; what is held of them serves for a minute");
                }
                return;
            }
        };
        let mut state = self.memory.lock();
        if state.failed_at.take().is_some() {
            tracing::info!("signing scopes can be read again");
        }
        if state.take(opened, all.then_some(began)) {
            self.memory.news.notify_one();
        }
    }

    /// What is not as it was held any more, opened.
    async fn read(&self, held: &[(String, String)]) -> Result<Vec<(String, Held)>, StoreError> {
        let changed = self.store.read_scopes(held).await?;
        let table = self.clone();
        // Opening and parsing many keys takes longer than a task should hold its thread. It neither panics nor is cancelled.
        Ok(tokio::task::spawn_blocking(move || table.open_all(changed)).await.unwrap_or_default())
    }

    fn open_all(&self, changed: Vec<ChangedScope>) -> Vec<(String, Held)> {
        let used = Instant::now();
        let opened = changed.into_iter().map(|ChangedScope { scope, stamp, stored }| {
            let found = stored.map_or(Err(ResolveError::Unknown), |stored| self.open(&scope, stored));
            if let Err(ResolveError::Unavailable(fault)) = &found {
                tracing::warn!(scope, %fault, "a signing scope cannot be used; its rows wait");
            }
            (scope, Held { stamp, found, used })
        });
        opened.collect()
    }

    /// One key that cannot be used makes the scope unusable, as in the directory: which key signs must not depend on which
    /// can be read here.
    fn open(&self, scope: &str, stored: StoredScope) -> Result<Found, ResolveError> {
        if stored.decommissioned {
            return Err(ResolveError::Decommissioned);
        }
        let opened = self.open_stored(scope, stored).map_err(ResolveError::Unavailable)?;
        match self.known.changed(Some(scope), &opened.keys) {
            Some(_) => Err(ResolveError::Unavailable(ScopeFault::KeyChanged)),
            None => {
                self.known.remember(Some(scope), &opened.keys);
                Ok(opened)
            }
        }
    }

    fn open_stored(&self, scope: &str, stored: StoredScope) -> Result<Found, ScopeFault> {
        let advertised = stored.algorithms.iter().map(|name| name.parse::<Algorithm>()).collect::<Result<_, _>>();
        let keys = stored.keys.into_iter().map(|key| open_key(scope, key, &self.keyring)).collect::<Result<_, _>>()?;
        let identity = stored.client.map(|(sealed, nonce)| {
            let aad = Aad::client_certificate(scope);
            let pem = open_held(sealed, &nonce, &aad, &self.keyring).ok_or(ScopeFault::Unopenable)?;
            ClientIdentity::from_pem(&pem, &pem).map(Arc::new).map_err(ScopeFault::Certificate)
        });
        Ok(Found {
            keys: SigningKeys::new(keys).map_err(ScopeFault::Keys)?,
            advertised: advertised.map_err(|_| ScopeFault::StoredMalformed)?,
            identity: identity.transpose()?,
        })
    }

    /// Every scope of the table, with its keys or what is wrong with it.
    pub(super) async fn roster(&self) -> Roster {
        let mut all = self.memory.all.lock().await;
        if let Err(error) = self.read_all(&mut all).await {
            tracing::debug!(%error, "the list of signing scopes was not read to its end");
            return Roster {
                faults: vec![(TABLE.into(), ResolveError::Unavailable(ScopeFault::Unread))],
                ..Roster::default()
            };
        }
        let mut roster = Roster::default();
        for (scope, held) in all.iter() {
            match &held.found {
                Ok(found) => {
                    roster.signers.push((Some(scope.clone()), found.keys.clone()));
                    let dated = found.identity.as_ref().map(|identity| (scope.clone(), identity.expires()));
                    roster.certificates.extend(dated);
                }
                // Taken away between its name and itself.
                Err(ResolveError::Decommissioned | ResolveError::Unknown) => {}
                Err(error) => roster.faults.push((scope.clone(), *error)),
            }
        }
        roster
    }

    async fn read_all(&self, all: &mut BTreeMap<String, Held>) -> Result<(), StoreError> {
        let mut names = Vec::new();
        loop {
            let after = names.last().map_or("", String::as_str);
            let mut page = self.store.list_scopes(after, PAGE).await?;
            let more = page.len() >= PAGE as usize;
            names.append(&mut page);
            if !more || names.len() >= MAX_LISTED {
                break;
            }
        }
        for page in names.chunks(PAGE as usize) {
            let stamp = |scope: &String| all.get(scope).map_or_else(String::new, |held| held.stamp.clone());
            let questions: Vec<(String, String)> = page.iter().map(|scope| (scope.clone(), stamp(scope))).collect();
            all.extend(self.read(&questions).await?);
        }
        let names: HashSet<String> = names.into_iter().collect();
        all.retain(|scope, _| names.contains(scope));
        Ok(())
    }
}

/// Opens one key of a scope, and sees that it is what its row says.
pub(crate) fn open_key(scope: &str, stored: StoredKey, keyring: &Keyring) -> Result<TimedKey, ScopeFault> {
    let aad = Aad::signing_key(scope, &stored.key_id);
    let jwk = open_held(stored.sealed, &stored.nonce, &aad, keyring).ok_or(ScopeFault::Unopenable)?;
    let key = SigningKey::from_jwk(&jwk).map_err(ScopeFault::Key)?;
    if key.kid() != stored.key_id {
        return Err(ScopeFault::StoredMalformed);
    }
    let window = Window { not_before: moment(stored.not_before)?, not_after: moment(stored.not_after)? };
    Ok(TimedKey { key: Arc::new(key), window })
}

/// A moment as the table has it. No writer of ours writes an infinite one, which says nothing that null does not.
pub(crate) fn moment(seconds: Option<f64>) -> Result<Option<SystemTime>, ScopeFault> {
    let Some(seconds) = seconds else { return Ok(None) };
    let since = Duration::try_from_secs_f64(seconds.abs()).map_err(|_| ScopeFault::StoredMalformed)?;
    let moment = if seconds < 0.0 { UNIX_EPOCH.checked_sub(since) } else { UNIX_EPOCH.checked_add(since) };
    moment.map(Some).ok_or(ScopeFault::StoredMalformed)
}

/// A question under way. However it ends, the next one may begin and whoever waits looks again.
struct Round<'a>(&'a Memory);

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.0.lock().asking = false;
        self.0.rounds.send_modify(|rounds| *rounds += 1);
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held cannot leave the state half-written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn recall(&mut self, scope: &str, oldest: Duration) -> Option<Result<Found, ResolveError>> {
        if self.as_of?.elapsed() >= oldest {
            return None;
        }
        let held = self.held.get_mut(scope)?;
        held.used = Instant::now();
        Some(held.found.clone())
    }

    fn want(&mut self, scope: &str) {
        match self.held.get_mut(scope) {
            Some(held) => held.used = Instant::now(),
            None => drop(self.wanted.insert(scope.to_owned())),
        }
    }

    /// What is wanted, and with it everything that is held once that has grown old: scopes that nobody knows, one after
    /// the other, must not have everything asked for again and again.
    fn questions(&mut self) -> Questions {
        let all = self.as_of.is_none_or(|asked| asked.elapsed() >= FRESH);
        let wanted = std::mem::take(&mut self.wanted).into_iter().map(|scope| (scope, String::new()));
        let mut about: Vec<(String, String)> = wanted.collect();
        if all {
            self.held.retain(|_, held| held.used.elapsed() < UNUSED);
            about.extend(self.held.iter().map(|(scope, held)| (scope.clone(), held.stamp.clone())));
        }
        Questions { about, all }
    }

    /// Whether a scope changed: one that is unknown and always was is no news. `as_of` is when everything was asked for; what
    /// was asked for alone is taken to be as old as the rest.
    fn take(&mut self, opened: Vec<(String, Held)>, as_of: Option<Instant>) -> bool {
        let mut news = false;
        for (scope, held) in opened {
            let unknown = |found: &Result<Found, ResolveError>| matches!(found, Err(ResolveError::Unknown));
            let before = self.held.get(&scope);
            news |= !unknown(&held.found) || before.is_some_and(|before| !unknown(&before.found));
            let used = before.map_or(held.used, |before| before.used);
            self.held.insert(scope, Held { used, ..held });
        }
        if self.held.len() > MAX_HELD {
            let mut used: Vec<Instant> = self.held.values().map(|held| held.used).collect();
            used.sort_unstable();
            let oldest = used[used.len() - MAX_HELD];
            self.held.retain(|_, held| held.used >= oldest);
        }
        self.as_of = as_of.or(self.as_of);
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ago(seconds: u64) -> Instant {
        // The machine has been up for longer than any of these.
        Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap()
    }

    fn held(found: Result<Found, ResolveError>, used: u64) -> Held {
        Held { stamp: "stamp".into(), found, used: ago(used) }
    }

    fn found() -> Result<Found, ResolveError> {
        let random = ring::rand::SystemRandom::new();
        let (key, _) = SigningKey::generate(Algorithm::Ed25519, Some("k"), &random).unwrap();
        Ok(Found { keys: SigningKeys::single(key), advertised: Algorithms::all(), identity: None })
    }

    fn state(held: Vec<(&str, Held)>, as_of: u64) -> State {
        let held = held.into_iter().map(|(scope, held)| (scope.to_owned(), held)).collect();
        State { held, as_of: Some(ago(as_of)), ..State::default() }
    }

    #[test]
    fn what_was_read_is_fresh_for_four_seconds_and_serves_for_sixty() {
        for (age, fresh, serves) in
            [(0, true, true), (3, true, true), (4, false, true), (59, false, true), (60, false, false)]
        {
            let mut state = state(vec![("a", held(found(), 0))], age);
            assert_eq!(state.recall("a", FRESH).is_some(), fresh, "{age}");
            assert_eq!(state.recall("a", GRACE).is_some(), serves, "{age}");
            assert!(state.recall("b", GRACE).is_none());
        }
        assert!(State::default().recall("a", GRACE).is_none());
    }

    #[test]
    fn everything_held_is_asked_for_again_but_what_nobody_uses() {
        let scopes = vec![("used", held(found(), 1)), ("unused", held(found(), 601)), ("wanted", held(found(), 700))];
        let mut state = state(scopes, 5);
        for scope in ["new", "new", "wanted"] {
            state.want(scope);
        }
        let Questions { mut about, all } = state.questions();
        about.sort_unstable();
        let question = |scope: &str, stamp: &str| (scope.to_owned(), stamp.to_owned());
        assert!(all && state.wanted.is_empty());
        assert_eq!(about, [question("new", ""), question("used", "stamp"), question("wanted", "stamp")]);
    }

    #[test]
    fn scopes_that_nobody_knows_do_not_have_everything_asked_for() {
        let mut state = state(vec![("a", held(found(), 0))], 3);
        state.want("nobody");
        let Questions { about, all } = state.questions();
        assert_eq!((about, all), (vec![("nobody".to_owned(), String::new())], false));
        let as_of = state.as_of;
        state.take(vec![("nobody".into(), held(Err(ResolveError::Unknown), 0))], None);
        assert_eq!(state.as_of, as_of, "the rest is as old as it was");
        assert!(state.recall("nobody", FRESH).is_some());
        assert!(State::default().questions().all);
    }

    #[test]
    fn only_a_scope_that_somebody_knows_is_news() {
        let unknown = || held(Err(ResolveError::Unknown), 0);
        let mut state = state(vec![("gone", held(found(), 0))], 0);
        assert!(!state.take(vec![("never".into(), unknown())], Some(Instant::now())));
        assert!(state.take(vec![("gone".into(), unknown())], Some(Instant::now())));
        assert!(!state.take(vec![("gone".into(), unknown())], Some(Instant::now())));
        assert!(state.take(vec![("never".into(), held(found(), 0))], Some(Instant::now())));
        assert!(!state.take(Vec::new(), Some(Instant::now())));
    }

    #[test]
    fn memory_is_bounded_and_the_least_used_goes_first() {
        let mut state = state(vec![("old", held(Err(ResolveError::Unknown), 500))], 0);
        let many = (0..MAX_HELD).map(|nth| (format!("scope-{nth}"), held(Err(ResolveError::Unknown), 1)));
        state.take(many.collect(), Some(Instant::now()));
        assert!(state.held.len() <= MAX_HELD && !state.held.contains_key("old"));
    }

    #[test]
    fn moments_of_the_table_are_finite() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(moment(None), Ok(None));
        assert_eq!(moment(Some(1.5)), Ok(Some(at(1) + Duration::from_millis(500))));
        assert_eq!(moment(Some(-1.0)), Ok(Some(UNIX_EPOCH - Duration::from_secs(1))));
        for seconds in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300] {
            assert_eq!(moment(Some(seconds)), Err(ScopeFault::StoredMalformed), "{seconds}");
        }
    }
}
