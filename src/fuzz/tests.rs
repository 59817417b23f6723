//! A smoke run of every fuzz target on the stable toolchain: its corpus, the vectors, and mutations of both that are the
//! same each time. What fuzzing found stands here by name.

use super::seeds::{handmade, of_vectors, root};
use super::*;

type Door = fn(&[u8]);

const TARGETS: [(&str, Door); 8] = [
    ("capture", capture),
    ("config", config),
    ("envelope_open", envelope_open),
    ("registration_open", registration_open),
    ("reply", reply),
    ("retry_after", retry_after),
    ("signature_input", signature_input),
    ("url_policy", url_policy),
];

/// xorshift64*: the same numbers on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap() % sides.max(1)
    }
}

/// One to four small changes.
fn mutated(seed: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    const ODD: [&[u8]; 16] = [
        b"\xff",
        b"\0",
        b"\n",
        b"\r\n\r\n",
        b"\"",
        b"\\",
        b"\\u0000",
        b"%",
        b"..",
        b"@",
        b"[",
        b"9999999999",
        b"-1",
        b";",
        b"\xe2\x80\xae",
        b"\xc2\xad",
    ];
    let mut bytes = seed.to_vec();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(bytes.len());
        let to = at + dice.roll(bytes.len() - at);
        match dice.roll(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << dice.roll(8),
            1 if !bytes.is_empty() => bytes[at] = u8::try_from(dice.roll(256)).unwrap(),
            2 => drop(bytes.drain(at..to)),
            3 => bytes.truncate(at),
            4 => {
                let again = bytes[at..to].to_vec();
                bytes.splice(at..at, again);
            }
            5 => {
                let from = dice.roll(other.len());
                let theirs = &other[from..from + dice.roll(other.len() - from)];
                bytes.splice(at..to, theirs.iter().copied());
            }
            _ => {
                bytes.splice(at..at, ODD[dice.roll(ODD.len())].iter().copied());
            }
        }
    }
    bytes
}

fn smoke(target: &str, mutations: usize) {
    let (_, door) = TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let mut seeds = handmade(target);
    assert!(seeds.len() >= 20, "{target} has {} seeds", seeds.len());
    seeds.extend(of_vectors(target));
    for (name, seed) in &seeds {
        let ended = std::panic::catch_unwind(|| door(seed));
        assert!(ended.is_ok(), "{target}: seed {name}");
    }
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for nth in 0..mutations {
        let (_, seed) = &seeds[nth % seeds.len()];
        let (_, other) = &seeds[dice.roll(seeds.len())];
        let input = mutated(seed, other, &mut dice);
        let ended = std::panic::catch_unwind(|| door(&input));
        assert!(ended.is_ok(), "{target}: {}", input.escape_ascii());
    }
}

#[test]
fn any_url_is_judged_alike_by_all_who_read_it() {
    smoke("url_policy", 6000);
}

#[test]
fn any_row_opens_to_what_was_sealed_or_not_at_all() {
    smoke("envelope_open", 6000);
}

#[test]
fn any_registration_opens_to_what_was_sealed_or_not_at_all() {
    smoke("registration_open", 4000);
}

#[test]
fn any_signature_headers_are_let_in_whole_or_refused_with_a_code() {
    smoke("signature_input", 4000);
}

#[test]
fn any_captured_request_is_read_or_refused() {
    smoke("capture", 4000);
}

#[test]
fn any_reply_ends_the_exchange_with_the_status_on_the_wire() {
    smoke("reply", 3000);
}

#[test]
fn any_retry_after_is_bounded() {
    smoke("retry_after", 20_000);
}

#[test]
fn any_configuration_is_taken_or_refused_without_its_secrets() {
    smoke("config", 300);
}

/// With `FUZZ_SEEDS` it writes what the vectors come to into that directory, for the fuzzer to begin with.
#[test]
fn each_door_has_a_target_a_corpus_and_seeds() {
    let manifest = std::fs::read_to_string(root().join("tests/fuzz/Cargo.toml")).unwrap();
    for (target, _) in TARGETS {
        let text = std::fs::read_to_string(root().join(format!("tests/fuzz/targets/{target}.rs"))).unwrap();
        assert!(text.contains(&format!("outboxd::fuzz::{target}(data)")), "{target} knocks elsewhere");
        assert!(manifest.contains(&format!("name = \"{target}\"")), "{target} is not built");
        let Some(dir) = std::env::var_os("FUZZ_SEEDS") else { continue };
        let dir = std::path::Path::new(&dir).join(target);
        std::fs::create_dir_all(&dir).unwrap();
        for (name, seed) in of_vectors(target) {
            std::fs::write(dir.join(name), seed).unwrap();
        }
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
