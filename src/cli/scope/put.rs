//! `outboxd scope put`: reads a key and a client certificate, checks them, seals them and writes them. Nothing is written
//! that a daemon would refuse.

use std::path::Path;

use super::{Bound, Failure, Held, PutArgs, seconds, spelt, stored};
use crate::certificate::{ClientIdentity, bundle};
use crate::cli::seal::{print, read_input};
use crate::config::secret_file;
use crate::envelope::{Aad, seal_held};
use crate::secret::{Secret, passphrase, random};
use crate::signature::{Algorithm, SigningKey, private_jwk};
use crate::store::{ClientDraft, KeyDraft, Kind, ScopeDraft, StoredKey, StoredScope};

pub(super) async fn put(args: &PutArgs, held: &Held) -> Result<(), Failure> {
    let before = stored(&held.store, &args.scope).await?;
    if before.as_ref().is_some_and(|before| before.decommissioned) {
        return Err(decommissioned(&args.scope));
    }
    let key = args.key.as_deref().map(|file| read_key(args, file)).transpose()?;
    let algorithms = algorithms(args, before.as_ref(), key.as_ref().map(|(key, _)| key))?;
    let draft = key.as_ref().map(|(key, jwk)| key_draft(args, before.as_ref(), key, jwk, held)).transpose()?;
    let window = draft.as_ref().map(|draft| (draft.key.not_before, draft.key.not_after));
    let draft = ScopeDraft {
        scope: &args.scope,
        algorithms: algorithms.map(|list| list.into_iter().map(Algorithm::name).collect()),
        client: client(args, held)?,
        key: draft,
    };
    let written = held.store.put_scope(&draft).await.map_err(|error| match error.kind {
        Kind::Other { ref sqlstate } if sqlstate == UNIQUE => same_beginning(None),
        _ => error.into(),
    })?;
    if !written.scope {
        return Err(decommissioned(&args.scope));
    }
    let Some((key, _)) = key else {
        println!("wrote scope {:?}", args.scope);
        return Ok(());
    };
    if !written.key {
        let problem = format!("the key id {:?} stands for another key in this scope", key.kid());
        return Err(Failure::data(format!(
            "{problem}, and receivers may hold that one; give the new key a new key id"
        )));
    }
    let (not_before, not_after) = window.unwrap_or_default();
    eprintln!("{} of scope {:?} signs from {} until {}.", key.kid(), args.scope, spelt(not_before), spelt(not_after));
    print(&format!("{:#}\n", key.public_jwk()))
}

/// Two keys that begin at one moment, found by an index of the table: another operator was faster.
const UNIQUE: &str = "23505";

fn decommissioned(scope: &str) -> Failure {
    Failure::data(format!("scope {scope:?} is decommissioned, for good; use another name"))
}

fn same_beginning(other: Option<&str>) -> Failure {
    let other = other.map(|other| format!(" ({other:?})")).unwrap_or_default();
    Failure::data(format!(
        "another key of the scope{other} begins to sign at the same moment, so that neither is the newer; say when this \
         one begins (--not-before), at least 40 minutes from now, so that receivers know it by then"
    ))
}

/// The key, and what of it is sealed.
type ReadKey = (SigningKey, zeroize::Zeroizing<Vec<u8>>);

fn read_key(args: &PutArgs, file: &Path) -> Result<ReadKey, Failure> {
    let content = match file == Path::new("-") {
        true => Secret::new(read_input()?.to_vec()),
        false => secret_file("--key", file)?,
    };
    let opened_with = args.passphrase_file.as_deref().map(|file| secret_file("--passphrase-file", file)).transpose()?;
    let opened_with = opened_with.map(|file| passphrase(file.expose()));
    private_jwk(content.expose(), args.key_id.as_deref(), opened_with.as_ref().map(Secret::expose))
        .map_err(|error| Failure::data(format!("--key {}: {error}", file.display())))
}

/// What is advertised from now on; nothing where that stays.
fn algorithms(
    args: &PutArgs,
    before: Option<&StoredScope>,
    key: Option<&SigningKey>,
) -> Result<Option<Vec<Algorithm>>, Failure> {
    let given = args.algorithms.iter().map(|name| name.parse::<Algorithm>()).collect::<Result<Vec<_>, _>>();
    let given = given.map_err(|error| Failure::data(format!("--algorithms: {error}")))?;
    let stands = before.map(|before| before.algorithms.iter().filter_map(|name| name.parse().ok()).collect::<Vec<_>>());
    let (named, stands) = match (given.is_empty(), stands, key) {
        (false, _, _) => (given, false),
        (true, Some(stands), _) => (stands, true),
        (true, None, Some(key)) => (vec![key.algorithm()], false),
        (true, None, None) => {
            let problem = "the scope is not known yet; name a key for it (--key), or what it advertises (--algorithms)";
            return Err(Failure::data(problem.into()));
        }
    };
    if let Some(key) = key.filter(|key| !named.contains(&key.algorithm())) {
        let algorithm = key.algorithm();
        return Err(Failure::data(format!(
            "the key is {algorithm}, which the scope does not advertise; once its seller does, name all that it \
             advertises with --algorithms"
        )));
    }
    Ok((!stands).then_some(named))
}

/// The key's window is what is named, and else what it was.
fn key_draft(
    args: &PutArgs,
    before: Option<&StoredScope>,
    key: &SigningKey,
    jwk: &[u8],
    held: &Held,
) -> Result<KeyDraft, Failure> {
    let keys = before.map_or(&[][..], |before| before.keys.as_slice());
    let was = keys.iter().find(|stored| stored.key_id == key.kid());
    let named = |bound: Option<Bound>| bound.map(|Bound(moment)| moment.map(seconds));
    let not_before = named(args.not_before).unwrap_or_else(|| was.and_then(|was| was.not_before));
    let not_after = named(args.not_after).unwrap_or_else(|| was.and_then(|was| was.not_after));
    if not_before.zip(not_after).is_some_and(|(begins, ends)| ends <= begins) {
        return Err(Failure::data("the key would be over (--not-after) before it begins (--not-before)".into()));
    }
    let others = || keys.iter().filter(|stored| stored.key_id != key.kid());
    if let Some(other) = others().find(|other| other.not_before == not_before) {
        return Err(same_beginning(Some(&other.key_id)));
    }
    let nonce = random();
    let sealed = seal_held(jwk, &Aad::signing_key(&args.scope, key.kid()), &held.keyring, nonce);
    let key_id = key.kid().to_owned();
    let stored = StoredKey { key_id, not_before, not_after, sealed, nonce: nonce.to_vec() };
    Ok(KeyDraft { thumbprint: key.thumbprint(), key: stored })
}

fn client(args: &PutArgs, held: &Held) -> Result<ClientDraft, Failure> {
    let (Some(certificate), Some(key)) = (&args.client_cert, &args.client_key) else {
        return Ok(if args.no_client_cert { ClientDraft::TakeAway } else { ClientDraft::Leave });
    };
    let unreadable = |file: &Path, problem: String| Failure::data(format!("{}: {problem}", file.display()));
    let chain = std::fs::read(certificate).map_err(|error| unreadable(certificate, error.kind().to_string()))?;
    let private = secret_file("--client-key", key)?;
    let checked = ClientIdentity::from_pem(&chain, private.expose());
    // A file may have what is neither: only what was checked is kept.
    let pem = checked.and_then(|_| bundle(&chain, private.expose())).map_err(|fault| match fault.is_about_key() {
        true => unreadable(key, fault.to_string()),
        false => unreadable(certificate, fault.to_string()),
    })?;
    let nonce = random();
    let sealed = seal_held(&pem, &Aad::client_certificate(&args.scope), &held.keyring, nonce);
    Ok(ClientDraft::Put { sealed, nonce: nonce.to_vec() })
}
