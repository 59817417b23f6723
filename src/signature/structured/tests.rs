use serde_json::Value as Json;

use super::strict::{Item, Member, Value, dictionary};
use super::webhook::{byte_sequence, decode_either, members};
use super::*;
use crate::signature::vectors::{read, text};

fn one(field: &str) -> SignatureInput<'_> {
    let mut inputs = signature_inputs(field).unwrap_or_else(|_| panic!("{field}"));
    assert_eq!(inputs.len(), 1);
    inputs.remove(0)
}

#[test]
fn a_member_is_taken_apart_and_kept_as_sent() {
    let input = one(r#"sig1=("@method"  "date");created=1;keyid="a\"b\\c";flag;t=tok/en;d=1.5;b=:AA==:;n=-5"#);
    let names: Vec<&str> = input.components.iter().map(|component| component.name.as_str()).collect();
    assert_eq!(names, ["@method", "date"]);
    assert_eq!(input.parameter("created"), Some(&Bare::Integer(1)));
    assert_eq!(input.parameter("n"), Some(&Bare::Integer(-5)));
    assert_eq!(input.parameter("keyid"), Some(&Bare::String("a\"b\\c".to_owned())));
    assert_eq!(input.parameter("flag"), Some(&Bare::Boolean(true)));
    assert_eq!(input.parameter("t"), Some(&Bare::Token("tok/en")));
    assert_eq!(input.parameter("d"), Some(&Bare::Decimal(1500)));
    assert_eq!(input.parameter("b"), Some(&Bare::Bytes(vec![0])));
    assert_eq!(input.parameter("absent"), None);
    assert!(input.raw.starts_with(r#"("@method"  "date");created"#) && input.raw.ends_with(";n=-5"));
}

#[test]
fn what_is_no_dictionary_of_inner_lists_is_refused() {
    for field in [
        "",
        "sig1",
        "sig1=token",
        "sig1=(",
        "sig1=()x",
        "sig1=(\"a\"\"b\")",
        "sig1=(a)",
        "sig1=(\"a)",
        "sig1=(\"a\\n\")",
        "sig1=(\"é\")",
        "sig1=();",
        "sig1=();a=",
        "sig1=();a=1234567890123456",
        "sig1=();a=--1",
        "sig1=();a=1;a=1",
        "sig1=();A=1",
        "Sig1=()",
        "sig1=(),",
        "sig1=(),sig1=()",
        "sig1=() sig2=()",
        "1=()",
        "sig1 =()",
    ] {
        assert!(signature_inputs(field).is_err(), "{field}");
    }
}

#[test]
fn members_are_split_at_commas_outside_quotes_and_lists() {
    let split: Vec<&str> = members(r#" a=("x,y" "z"), b="c,\",d" ,, e=(1, 2)"#).collect();
    assert_eq!(split, [r#"a=("x,y" "z")"#, r#"b="c,\",d""#, "e=(1, 2)"]);
    assert!(has_duplicate_keys("a=1, b=2, A=3"));
    assert!(!has_duplicate_keys("a=1, b=2"));
}

#[test]
fn parsing_never_panics_and_never_splits_a_character() {
    let alphabet = ["sig1", "=", "(", ")", "\"", "\\", ";", ",", " ", "é", "1", "-", ".", ":", "?", "*", "\t"];
    let mut state = 1_u32;
    for _ in 0..20_000 {
        let mut field = String::new();
        for _ in 0..12 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            field.push_str(alphabet[(state >> 16) as usize % alphabet.len()]);
        }
        let _ = (signature_inputs(&field), split_at_commas(&field), has_duplicate_keys(&field));
        let _ = byte_sequence(&field, |key| key == "sig1").map(|text| text.map(decode_either));
        let _ = (Rfc8941.signature(&field, "sig1"), Rfc8941.sha256(&field));
    }
}

/// Duplicate keys, where the suite lets the last one win: RFC 9421 section 4.2 wants labels that are unique, and AdCP
/// refuses the field.
const STRICTER: [&str; 2] = ["a=1,b=2,a=3", "a,a=1"];

/// Of top-level items, where a tab at the end is a fault; at the end of a dictionary it is white space.
const NOT_OURS: [&str; 1] = ["trailing space"];

#[test]
fn the_published_cases_are_parsed_as_they_say_or_refused_by_a_listed_rule() {
    let (mut parsed, mut refused, mut stricter, mut optional) = (0, 0, Vec::new(), 0);
    for case in read("structured-fields/cases.json").as_array().unwrap() {
        let lines: Vec<&str> = case["raw"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        let raw = lines.join(", ");
        // A top-level item is not among our fields: it is read as the one member of a dictionary.
        let is_item = text(case, "type") == "item";
        let field = if is_item { format!("k={}", raw.trim_matches(' ')) } else { raw.clone() };
        let found = dictionary(&field).ok().filter(|members| !is_item || members.len() == 1);
        match (found, case["must_fail"] == true) {
            (None, true) => refused += 1,
            (Some(members), false) => {
                let told: Vec<Json> = members.iter().map(|(key, member)| tell_member(key, member)).collect();
                let told = if is_item { told[0][1].clone() } else { Json::from(told) };
                assert_eq!(told, spelt(&case["expected"]), "{case}");
                parsed += 1;
            }
            (None, false) if case["can_fail"] == true => optional += 1,
            (None, false) => stricter.push(raw),
            (Some(_), true) => assert!(NOT_OURS.iter().any(|name| case["name"] == *name), "parsed: {case}"),
        }
    }
    assert_eq!(stricter, STRICTER);
    assert_eq!((parsed, refused, optional), (584, 626, 2));
}

/// As the suite writes a value, but for bytes in hex and decimals in thousandths.
fn tell(bare: &Bare<'_>) -> Json {
    match bare {
        Bare::Integer(value) => (*value).into(),
        Bare::Decimal(thousandths) => Json::from(format!("{thousandths}/1000")),
        Bare::String(text) => text.as_str().into(),
        Bare::Token(token) => serde_json::json!({"token": token}),
        Bare::Bytes(bytes) => serde_json::json!({"bytes": crate::hex::encode(bytes)}),
        Bare::Boolean(value) => (*value).into(),
    }
}

fn tell_parameters(parameters: &Parameters<'_>) -> Json {
    parameters.iter().map(|(key, value)| serde_json::json!([key, tell(value)])).collect()
}

fn tell_member(key: &str, member: &Member<'_>) -> Json {
    let item = |item: &Item<'_>| serde_json::json!([tell(&item.value), tell_parameters(&item.parameters)]);
    let value = match &member.value {
        Value::Bare(bare) => tell(bare),
        Value::InnerList(items) => items.iter().map(item).collect(),
    };
    serde_json::json!([key, [value, tell_parameters(&member.parameters)]])
}

/// The suite's values in the spelling of [`tell`].
fn spelt(value: &Json) -> Json {
    match value {
        Json::Array(values) => values.iter().map(spelt).collect(),
        Json::Object(typed) if typed["__type"] == "token" => serde_json::json!({"token": typed["value"]}),
        Json::Object(typed) => {
            serde_json::json!({"bytes": crate::hex::encode(&from_base32(typed["value"].as_str().unwrap()))})
        }
        Json::Number(number) if number.is_f64() => {
            format!("{}/1000", (number.as_f64().unwrap() * 1000.0).round() as i64).into()
        }
        other => other.clone(),
    }
}

fn from_base32(text: &str) -> Vec<u8> {
    let digits = text.trim_end_matches('=').bytes().map(|byte| match byte {
        b'A'..=b'Z' => byte - b'A',
        _ => byte - b'2' + 26,
    });
    let bits: String = digits.map(|digit| format!("{digit:05b}")).collect();
    bits.as_bytes().chunks_exact(8).map(|bits| u8::from_str_radix(str::from_utf8(bits).unwrap(), 2).unwrap()).collect()
}

#[test]
fn each_decoder_refuses_what_the_other_profile_sends() {
    let standard = "sig1=:+/+/AA==:";
    let url_safe = "sig1=:-_-_AA:";
    let bytes = vec![0xfb, 0xff, 0xbf, 0];
    assert_eq!(Rfc8941.signature(standard, "sig1"), Ok(bytes.clone()));
    assert_eq!(Rfc8941.signature(url_safe, "sig1"), Err(Malformed));
    assert_eq!(WebhookV1.signature(url_safe, "sig1"), Ok(bytes.clone()));
    // The webhook profile's verifiers take both, but not in one value, and each in one spelling only.
    assert_eq!(WebhookV1.signature(standard, "sig1"), Ok(bytes));
    for mixed in ["sig1=:+/-_AA==:", "sig1=:-_+/AA:"] {
        assert_eq!(Rfc8941.signature(mixed, "sig1"), Err(Malformed), "{mixed}");
        assert_eq!(WebhookV1.signature(mixed, "sig1"), Err(Malformed), "{mixed}");
        assert!(WebhookV1.is_ambiguous(mixed, "sig1") && !WebhookV1.is_ambiguous(mixed, "sig2"));
    }
    for other in ["sig1=:+/+/AA:", "sig1=:-_-_AA==:", "sig1=:-_-_AB:", "sig1=AA", "sig1=\"AA\"", "sig2=:AA==:", ""] {
        assert_eq!(Rfc8941.signature(other, "sig1"), Err(Malformed), "{other}");
        assert_eq!(WebhookV1.signature(other, "sig1"), Err(Malformed), "{other}");
    }
}

#[test]
fn a_strict_field_is_good_as_a_whole_or_not_at_all() {
    for broken in ["sig1=:AA==:, x=:-_:", "sig1=:AA==:,", "sig1=:AA==:, sig1=:AA==:", "sig1=:AA==: x"] {
        assert_eq!(Rfc8941.signature(broken, "sig1"), Err(Malformed), "{broken}");
    }
    assert_eq!(Rfc8941.signature("x;a=?0, sig1=:AA==:;p=1, y=(1 2)", "sig1"), Ok(vec![0]));
    assert_eq!(Rfc8941.sha256("sha-512=:AAAA:, sha-256=:AA==:"), Ok(vec![0]));
    assert_eq!(Rfc8941.sha256("SHA-256=:AA==:"), Err(Malformed));
    assert_eq!(WebhookV1.sha256("SHA-256=:AA==:"), Ok(vec![0]));
}

#[test]
fn thousands_of_keys_cost_no_more_than_their_length() {
    let field: String = (0..50_000).map(|n| format!("k{n}=(),")).collect::<String>() + "k0=()";
    assert_eq!(signature_inputs(&field), Err(Malformed), "the first key comes again");
    let parameters: String = (0..50_000).map(|n| format!(";p{n}")).collect();
    assert_eq!(one(&format!("sig1=(){parameters}")).parameters.len(), 50_000);
}
