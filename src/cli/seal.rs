//! `outboxd seal`: seals a batch of JSON from standard input under the newest key. Connects to nothing.

use std::io::{Read, Write};

use zeroize::Zeroizing;

use super::Failure;
use crate::address::{Policy, UrlRules};
use crate::config::{Config, Signing};
use crate::deliver::{destinations, keyring};
use crate::envelope::{Keyring, OpenRules};
use crate::sealing::{ScopeRule, Sealer};
use crate::secret::append;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Print what could be sealed although other items are refused; each of those is answered by an object `error`.
    #[arg(long)]
    partial: bool,
}

pub(super) const HELP: &str = "\
Items: one object, an array, or objects one after another. Each has the members
  kind                 \"registration\" or \"delivery\"
  account_id, task_id, task_type, url, operation_id
  signing_scope_id?    where rows are signed by scope
  authentication?      {\"scheme\": \"Bearer\", \"HMAC-SHA256\" or
                       \"Standard-Webhooks\" (credentials whsec_...), \"credentials\"}
  token?               of a registration
  terminal_status, idempotency_key, and body or body_base64 of a delivery

Answers, in the same order: kind, task_id, the sealing key's fingerprint, and
ciphertext and nonce, both as Postgres reads bytea and as base64. They belong
into webhook_registration or encrypted_body, and the column beside it.
Exits with 65 and seals nothing where an item is refused, but for --partial.

  outboxd seal < registration.json | jq -r '.ciphertext, .nonce'";

/// What of the configuration sealing needs: neither a database nor a signing key.
pub(super) struct Held {
    keyring: Keyring,
    rules: OpenRules,
    url_rules: UrlRules,
    policy: Policy,
    scopes: ScopeRule,
}

pub(super) fn sealing(config: &Config) -> Result<Held, Failure> {
    let (url_rules, policy) = destinations(config)?;
    Ok(Held {
        keyring: keyring(config)?,
        rules: OpenRules { legacy_hmac: config.settings.envelope.legacy_hmac },
        url_rules,
        policy,
        scopes: scopes(&config.settings.signing),
    })
}

impl Held {
    pub(super) fn sealer(&self) -> Sealer<'_> {
        Sealer {
            keyring: &self.keyring,
            rules: self.rules,
            url_rules: &self.url_rules,
            policy: &self.policy,
            scopes: self.scopes,
        }
    }
}

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let held = sealing(config)?;
    let input = read_input()?;
    let outcome = held.sealer().seal_batch(&input).map_err(|fault| Failure::data(fault.to_string()))?;
    if outcome.faults.is_empty() || args.partial {
        print(&outcome.answers)?;
    }
    if outcome.faults.is_empty() {
        return Ok(());
    }
    let mut message = match args.partial {
        true => format!("{} item(s) are not sealed:", outcome.faults.len()),
        false => "nothing is sealed:".to_owned(),
    };
    for (index, fault) in &outcome.faults {
        message.push_str(&format!("\n  item {index}: {}: {fault}", fault.code()));
    }
    Err(Failure::data(message))
}

/// The command may run where only the envelope key is; then nothing is known of how rows will be signed.
fn scopes(signing: &Signing) -> ScopeRule {
    let fixed = !signing.key_file.as_os_str().is_empty() || !signing.keys.is_empty();
    match (fixed, signing.is_by_scope()) {
        (_, true) if signing.default_scope().is_none() => ScopeRule::Must,
        (true, false) => ScopeRule::Never,
        _ => ScopeRule::May,
    }
}

/// Not by `read_to_end`, which leaves a copy behind, unwiped, whenever its buffer has to grow.
pub(super) fn read_input() -> Result<Zeroizing<Vec<u8>>, Failure> {
    let mut stdin = std::io::stdin().lock();
    let mut input = Zeroizing::new(Vec::new());
    // Larger than the buffer of standard input, which is passed over then.
    let mut piece = Zeroizing::new(vec![0; 64 << 10]);
    loop {
        match stdin.read(&mut piece) {
            Ok(0) => return Ok(input),
            Ok(read) => append(&mut input, &piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::io(format!("cannot read standard input: {error}"))),
        }
    }
}

/// A batch whose answer did not get through must not look like a success.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::io(format!("cannot write standard output: {error}")))
}
