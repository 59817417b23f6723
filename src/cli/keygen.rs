//! `outboxd keygen`: makes a key, writes its private half where only the owner can read it, and says what to do with both
//! halves. It changes no configuration and never writes over a file.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use crate::envelope::EnvelopeKey;
use crate::signature::{Algorithm, SigningKey};

/// What the README's runbook asks for, rounded up.
const PUBLISHED_BEFORE: Duration = Duration::from_secs(3600);

/// Make a key: for opening envelopes, or for signing webhooks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, clap::Subcommand)]
enum Kind {
    /// An envelope key: 32 random bytes, as 64 hex digits
    ///
    /// The host application seals each webhook with it (AES-256-GCM) and the daemon opens it. Both need the same key.
    /// How one takes another's place while daemons run: README, "Rotating the envelope key".
    Envelope {
        /// File for the key, readable by its owner only; it must not exist yet
        #[arg(long, value_name = "FILE", default_value = "outboxd-envelope.key")]
        out: PathBuf,
    },
    /// An Ed25519 signing key (`ed25519`); take this one unless your buyers cannot verify it
    Ed25519(Signing),
    /// A P-256 signing key (`ecdsa-p256-sha256`)
    P256(Signing),
}

#[derive(Debug, clap::Args)]
struct Signing {
    /// Key id that receivers look the public key up by [default: the key's RFC 7638 thumbprint]
    #[arg(long)]
    kid: Option<String>,
    /// File for the private key, readable by its owner only; it must not exist yet
    #[arg(long, value_name = "FILE", default_value = "outboxd-signing.pem")]
    out: PathBuf,
    /// File for the public JWK, which must not exist yet [default: standard output]
    #[arg(long, value_name = "FILE")]
    jwk: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let random = SystemRandom::new();
    match args.kind {
        Kind::Envelope { out } => envelope(&out, &random),
        Kind::Ed25519(signing) => signing_key(Algorithm::Ed25519, &signing, &random),
        Kind::P256(signing) => signing_key(Algorithm::EcdsaP256Sha256, &signing, &random),
    }
}

fn envelope(out: &Path, random: &dyn SecureRandom) -> anyhow::Result<()> {
    let mut key = Zeroizing::new([0_u8; 32]);
    if random.fill(&mut *key).is_err() {
        bail!("the system's random generator failed; no key was made");
    }
    let mut text = Zeroizing::new(Vec::with_capacity(65));
    for byte in key.iter() {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        text.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0x0f)]]);
    }
    text.push(b'\n');
    write_new(out, 0o600, &text)?;
    eprintln!("Wrote a new envelope key to {}, readable by its owner only.", out.display());
    let key = EnvelopeKey::parse(&text).context("the key that was made cannot be read")?;
    eprintln!("Commands, logs and metrics name it by its fingerprint: {}", key.fingerprint());
    eprintln!("Next: name it in the configuration, and give the same key to the host application:");
    eprintln!("    [envelope]");
    eprintln!("    key_files = [\"{}\"]", absolute(out).display());
    Ok(())
}

fn signing_key(algorithm: Algorithm, signing: &Signing, random: &dyn SecureRandom) -> anyhow::Result<()> {
    let (key, pem) = SigningKey::generate(algorithm, signing.kid.as_deref(), random).context("no key was made")?;
    let jwk = format!("{:#}\n", key.public_jwk());
    write_new(&signing.out, 0o600, pem.as_bytes())?;
    let published = match &signing.jwk {
        Some(path) => write_new(path, 0o644, jwk.as_bytes()),
        None => std::io::stdout().write_all(jwk.as_bytes()).context("cannot print the public key"),
    };
    if let Err(error) = published {
        // A private key whose public half went nowhere is of no use, and would be in the way of the next try.
        let _ = std::fs::remove_file(&signing.out);
        return Err(error);
    }
    eprintln!("Wrote a new private key ({algorithm}) to {}, readable by its owner only.", signing.out.display());
    match &signing.jwk {
        Some(path) => eprintln!("Wrote its public JWK to {}.", path.display()),
        None => eprintln!("Its public JWK is on standard output."),
    }
    eprintln!(
        "Next: have it published before it signs. Receivers keep key sets for up to 30 minutes; whoever lists the key like"
    );
    eprintln!(
        "this publishes it at `jwks.listen` at once and signs with it later (README, \"Rotating the signing key\"):"
    );
    eprintln!("    [[signing.keys]]");
    eprintln!("    key_file = \"{}\"", absolute(&signing.out).display());
    eprintln!("    key_id = {}", serde_json::Value::from(key.kid()));
    eprintln!("    not_before = \"{}\"", humantime::format_rfc3339_seconds(SystemTime::now() + PUBLISHED_BEFORE));
    eprintln!(
        "A first key signs at once: leave `not_before` out. Another publisher's key set takes the public JWK as it is."
    );
    Ok(())
}

fn write_new(path: &Path, mode: u32, content: &[u8]) -> anyhow::Result<()> {
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(mode).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} exists already and keys are never written over; name another file, or move that one away",
            path.display()
        ),
        Err(error) => return Err(error).with_context(|| format!("cannot create {}", path.display())),
    };
    fill(&mut file, content).with_context(|| {
        // Half a key must not look like one.
        let _ = std::fs::remove_file(path);
        format!("cannot write {}", path.display())
    })
}

/// On disk before anybody is told: data sealed under a key that a power cut took is lost.
fn fill(file: &mut File, content: &[u8]) -> std::io::Result<()> {
    file.write_all(content)?;
    file.sync_all()
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests;
