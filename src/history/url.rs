//! A URL as it may be shown: origin and path, with every part of the path replaced that could be a secret. It decides by the
//! look of a part alone, and rather takes a word for a secret than a secret for a word.

/// What stands in a secret's place.
const REDACTED: &str = "redacted";
/// Longer runs of letters or digits are no words, and no numbers that a person chose.
const LONGEST_WORD: usize = 16;
/// So few letters are no secret.
const SHORT: usize = 4;
const LONGEST_NUMBER: usize = 6;
const LONGEST_PART: usize = 48;
/// Words hold a vowel now and then; what is drawn at random seldom does.
const LONGEST_CONSONANTS: usize = 5;
/// What follows one of these is a secret however it looks.
const NAMES_OF_SECRETS: [&str; 9] =
    ["token", "tokens", "key", "keys", "apikey", "secret", "secrets", "auth", "password"];

/// Scheme, host and port, and the path without what looks like a secret. User, query and fragment are left out. What is no
/// absolute URL is shown as nothing.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return String::new() };
    if !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+') {
        return String::new();
    }
    let rest = rest.split(['?', '#', '\\']).next().unwrap_or_default();
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let host = authority.rsplit('@').next().unwrap_or_default();
    let mut shown = String::with_capacity(url.len());
    shown.extend([scheme, "://"]);
    shown.extend(host.chars().filter(|one| !one.is_control() && !one.is_whitespace()));
    let mut after_a_name = false;
    for part in path.split('/').skip(1) {
        shown.push('/');
        let harmless = part.is_empty() || !after_a_name && is_words(part);
        shown.push_str(if harmless { part } else { REDACTED });
        after_a_name = NAMES_OF_SECRETS.iter().any(|name| part.eq_ignore_ascii_case(name));
    }
    shown
}

/// Words and small numbers, joined as people join them.
fn is_words(part: &str) -> bool {
    if part.len() > LONGEST_PART || !part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)) {
        return false;
    }
    part.split(['-', '_', '.', '~']).all(|run| is_number(run) || is_version(run) || is_word(run))
}

fn is_number(run: &str) -> bool {
    run.len() <= LONGEST_NUMBER && run.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_version(run: &str) -> bool {
    run.strip_prefix(['v', 'V']).is_some_and(|number| number.len() <= 3 && is_number(number))
}

/// One word, or several joined by capitals.
fn is_word(run: &str) -> bool {
    let letters = run.as_bytes();
    if letters.len() <= SHORT && letters.iter().all(u8::is_ascii_alphabetic) {
        return true;
    }
    if letters.len() > LONGEST_WORD || !letters.iter().all(u8::is_ascii_alphabetic) {
        return false;
    }
    let is_vowel = |letter: &u8| b"aeiouyAEIOUY".contains(letter);
    let consonants = letters.split(is_vowel).map(<[u8]>::len).max().unwrap_or_default();
    let is_upper = |letter: &u8| letter.is_ascii_uppercase();
    // A capital begins a part of three letters or more, or all are capitals.
    let humps = letters.iter().all(is_upper)
        || letters
            .iter()
            .enumerate()
            .filter(|(_, letter)| is_upper(letter))
            .all(|(at, _)| letters.len() >= at + 3 && !letters[at + 1..at + 3].iter().any(is_upper));
    consonants <= LONGEST_CONSONANTS && humps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn user_query_and_fragment_are_left_out() {
        for (url, expected) in [
            ("https://user:pass@buyer.example:8443/hooks?token=x#y", "https://buyer.example:8443/hooks"),
            ("https://buyer.example?x", "https://buyer.example"),
            ("https://buyer.example", "https://buyer.example"),
            ("https://buyer.example/", "https://buyer.example/"),
            ("https://[2001:db8::1]/x", "https://[2001:db8::1]/x"),
            ("no url", ""),
            ("", ""),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
    }

    #[test]
    fn words_of_a_path_stay() {
        for path in [
            "/webhooks/adcp/v1",
            "/api/v2.1/media-buy/notifications",
            "/hooks/taskCompleted/callback.php",
            "/buyers/42/orders_2026",
            "/AdCP/Webhooks",
        ] {
            assert_eq!(shown(&format!("https://b.example{path}")), format!("https://b.example{path}"));
        }
    }

    #[test]
    fn what_looks_like_a_secret_does_not() {
        for secret in [
            "6f1ed002-ab5d-4b0e-9c3f-000000000000",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
            "T024BE7LD",
            "B0aXyZ",
            "XXXXXXXXXXXXXXXXXXXXXXXX",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "deadbeefdeadbeefdeadbeef",
            "1234567",
            "sk_live_51H8",
            "aGVsbG8%3D",
            "qzxkwvbn",
        ] {
            let url = format!("https://b.example/hooks/{secret}/end");
            assert_eq!(shown(&url), "https://b.example/hooks/redacted/end", "{secret}");
        }
        assert_eq!(shown("https://b.example/token/swordfish"), "https://b.example/token/redacted");
    }

    proptest! {
        #[test]
        fn sixteen_random_bytes_never_stay(bytes in prop::array::uniform16(any::<u8>())) {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(shown(&format!("https://b.example/{hex}")), "https://b.example/redacted");
        }
    }
}
