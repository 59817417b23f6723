use super::*;

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
    for other in ["flag", "t", "d", "b"] {
        assert_eq!(input.parameter(other), Some(&Bare::Other), "{other}");
    }
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
    }
}
