use super::*;

mod wpt;

fn parse(text: &str) -> Result<Destination, UrlError> {
    Destination::parse(text, &UrlRules::default())
}

fn rules(allow_hosts: &[&str], ports: &[u16]) -> UrlRules {
    UrlRules::new(allow_hosts.iter().map(|host| host.parse().unwrap()).collect(), ports.to_vec())
}

#[test]
fn host_and_port_are_read_from_plain_urls() {
    for (text, origin, target) in [
        ("https://buyer.example.com/hooks?x=1", "buyer.example.com:443", "/hooks?x=1"),
        ("HTTPS://Buyer.Example.COM:443/Hooks", "buyer.example.com:443", "/Hooks"),
        ("https://buyer.example.com", "buyer.example.com:443", "/"),
        ("https://buyer.example.com./p", "buyer.example.com:443", "/p"),
        ("https://buyer.example.com:0443/p", "buyer.example.com:443", "/p"),
        ("https://buyer.example.com:/p", "buyer.example.com:443", "/p"),
        ("https://buyer.example.com:8443/p#frag", "buyer.example.com:8443", "/p"),
        ("https://buyer.example.com?q", "buyer.example.com:443", "/?q"),
        ("https://b\u{fc}cher.example/p", "xn--bcher-kva.example:443", "/p"),
        ("https://\u{2603}.example/", "xn--n3h.example:443", "/"),
        ("https://1.1.1.1/", "1.1.1.1:443", "/"),
        ("https://[2606:4700:0:0::1111]:9443/p", "[2606:4700::1111]:9443", "/p"),
        ("https://a.example/x\\y z", "a.example:443", "/x\\y%20z"),
    ] {
        let destination = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(destination.origin(), origin, "{text}");
        assert_eq!(destination.target().request_target, target, "{text}");
    }
}

#[test]
fn what_is_signed_stays_as_it_was_stored() {
    let destination = parse("https://[2001:DB8:0:0::1]:9443/%2e%2e/a").unwrap();
    assert_eq!(destination.target().authority, "[2001:db8:0:0::1]:9443");
    assert_eq!(destination.target().request_target, "/%2e%2e/a");
    assert_eq!(destination.port(), 9443);
}

#[test]
fn f9_a_corrupt_url_is_a_typed_error() {
    let long = format!("https://a.example/{}", "x".repeat(2048));
    let label = format!("https://{}.example/", "x".repeat(64));
    let name = format!("https://{}example/", "x.".repeat(130));
    for (text, expected) in [
        ("", UrlError::NotHttps),
        ("h", UrlError::NotHttps),
        ("\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}", UrlError::NotHttps),
        (" https://a.example/", UrlError::NotHttps),
        ("http://a.example/", UrlError::NotHttps),
        ("ftp://a.example/", UrlError::NotHttps),
        ("https:a.example", UrlError::NotHttps),
        ("https:/a.example", UrlError::NotHttps),
        ("https:\\\\a.example\\", UrlError::NotHttps),
        ("https:///a.example", UrlError::NoHost),
        ("https://", UrlError::NoHost),
        ("https://?", UrlError::NoHost),
        ("https://#", UrlError::NoHost),
        ("https://:443/", UrlError::NoHost),
        ("https://user@a.example/", UrlError::UserInfo),
        ("https://user:pw@a.example/", UrlError::UserInfo),
        ("https://@a.example/", UrlError::UserInfo),
        ("https://a.example\\@127.0.0.1/", UrlError::AuthorityCharacter),
        ("https://a.example\\x/", UrlError::AuthorityCharacter),
        ("https://a example/", UrlError::AuthorityCharacter),
        ("https://a.example /", UrlError::AuthorityCharacter),
        ("https://%31%32%37.0.0.1/", UrlError::AuthorityCharacter),
        ("https://a%00.example/", UrlError::AuthorityCharacter),
        ("https://[fe80::1%25eth0]/", UrlError::AuthorityCharacter),
        ("https://[fe80::1%eth0]/", UrlError::AuthorityCharacter),
        ("https://a.example/\u{0}", UrlError::ControlCharacter),
        ("https://a.exa\tmple/", UrlError::ControlCharacter),
        ("https://a.example/x\r\nHost: b", UrlError::ControlCharacter),
        ("https://a.example/\u{7f}", UrlError::ControlCharacter),
        ("https://a..example/", UrlError::Host),
        ("https://a.example../", UrlError::Host),
        ("https://.a.example/", UrlError::Host),
        (&label, UrlError::Host),
        (&name, UrlError::Host),
        ("https://[::1/x", UrlError::Host),
        ("https://[::1]x/", UrlError::Host),
        ("https://*.example/", UrlError::Host),
        ("https://under_score.example.com/", UrlError::Host),
        ("https://r3---sn.example.com/", UrlError::Host),
        ("https://a-.example/", UrlError::Host),
        ("https://a.example:0/", UrlError::Port),
        ("https://a.example:65536/", UrlError::Port),
        ("https://a.example:x/", UrlError::Port),
        ("https://a.example:-1/", UrlError::Port),
        (&long, UrlError::TooLong),
    ] {
        assert_eq!(parse(text).err(), Some(expected), "{text:?}");
    }
}

#[test]
fn a_number_that_is_not_a_plain_address_is_refused() {
    for text in [
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://0/",
        "https://127.0.0.001/",
        "https://127.0.0.1./",
        "https://134744072/",
        "https://8.8.2056/",
        "https://256.256.256.256/",
        "https://1.2.3.4.5/",
        "https://0o177.0.0.1/",
        "https://a.0x7f/",
        "https://\u{ff11}27.0.0.1/",
        "https://127\u{3002}0\u{3002}0\u{3002}1/",
        "https://\u{2460}27.0.0.1/",
    ] {
        let refused = parse(text).err();
        assert_eq!(refused, Some(UrlError::AmbiguousHost), "{text}");
    }
}

#[test]
fn a_host_that_shows_one_name_and_means_another_is_refused() {
    for text in [
        "https://ex\u{ad}ample.com/",
        "https://exam\u{200b}ple.com/",
        "https://\u{ff45}xample.com/",
        "https://\u{24d4}xample.com:8443/",
        "https://example\u{3002}com/",
        "https://foo\u{300}.example/",
        "https://\u{fb01}n.example/",
    ] {
        assert_eq!(parse(text).err(), Some(UrlError::HostSpelling), "{text}");
    }
    for (text, host) in [
        ("https://B\u{dc}CHER.example./", "xn--bcher-kva.example"),
        ("https://fa\u{df}.example:8443/", "xn--fa-hia.example"),
        ("https://fa\u{1e9e}.example/", "xn--fa-hia.example"),
        ("https://f\u{f2}\u{f3}.example/", "xn--f-tgad.example"),
        ("https://XN--BCHER-KVA.example/\u{ad}", "xn--bcher-kva.example"),
        ("https://\u{65e5}\u{672c}.example/", "xn--wgv71a.example"),
    ] {
        assert_eq!(parse(text).unwrap().host(), host, "{text}");
    }
}

#[test]
fn names_outside_the_public_dns_are_refused_unless_opened() {
    let names = [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "ip6-localhost",
        "metadata",
        "printer.local",
        "local",
        "metadata.google.internal",
        "router.home.arpa",
        "home.arpa",
        "abc.onion",
        "a.test",
        "a.invalid",
    ];
    for name in names {
        let text = format!("https://{name}/");
        assert_eq!(parse(&text).err(), Some(UrlError::SpecialUseName), "{name}");
    }
    for open in ["https://localhost.example.com/", "https://mylocal.example/", "https://notlocal.com/"] {
        assert!(parse(open).is_ok(), "{open}");
    }
    let opened = rules(&["localhost", "*.internal"], &[]);
    assert!(Destination::parse("https://localhost./", &opened).is_ok());
    assert!(Destination::parse("https://a.b.internal/", &opened).is_ok());
    for closed in ["https://a.localhost/", "https://internal/", "https://xinternal/"] {
        assert_eq!(Destination::parse(closed, &opened).err(), Some(UrlError::SpecialUseName), "{closed}");
    }
}

#[test]
fn a_host_pattern_is_a_name_or_a_star_and_a_name() {
    for text in ["localhost", "*.internal", "Receiver.Test.", "*.B\u{fc}cher.test"] {
        assert!(text.parse::<HostPattern>().is_ok(), "{text}");
    }
    for text in ["", "*", "*.", "a b", "*.*.test", "10.0.0.1", "[::1]", "a..b", "https://a.test"] {
        assert_eq!(text.parse::<HostPattern>(), Err(HostPatternError), "{text}");
    }
}

#[test]
fn a_list_of_ports_refuses_every_other() {
    let narrow = rules(&[], &[443, 8443]);
    assert!(Destination::parse("https://a.example/", &narrow).is_ok());
    assert!(Destination::parse("https://a.example:8443/", &narrow).is_ok());
    assert_eq!(Destination::parse("https://a.example:8080/", &narrow).err(), Some(UrlError::PortNotAllowed));
    assert!(parse("https://a.example:22/").is_ok());
}

/// The signed `@target-uri`, read again by the parser that decides about connections, must lead to the same place.
#[test]
fn what_is_connected_to_is_what_is_signed() {
    let odd = [
        "https://ex\u{ad}ample.com/",
        "https://example.com\u{3002}/",
        "https://\u{24d4}xample.com:8443/",
        "https://fa\u{df}.example/",
        "https://XN--FA-hia.example/",
        "https://\u{2603}.example/",
        "https://a\u{b7}b.example/",
        "https://a.example:00443/x?y#z",
        "https://[::ffff:8.8.8.8]:9/",
        "https://[2606:4700::0:1111]/",
        "https://a.example//b/../c?d=/../e",
    ];
    let vectors = include_str!("../../../tests/vectors/ssrf-urls.txt");
    let mut accepted = 0;
    for text in vectors.lines().chain(odd) {
        let Ok(destination) = parse(text) else { continue };
        accepted += 1;
        let Target { target_uri, authority, .. } = destination.target();
        for signed in [target_uri.as_str(), &format!("https://{authority}/")] {
            let again = parse(signed).unwrap();
            assert_eq!((&again.place, again.port), (&destination.place, destination.port), "{text}");
        }
    }
    assert!(accepted > 50, "{accepted}");
}

#[test]
fn no_error_repeats_the_url() {
    for text in
        ["https://secret-user:secret-pw@secret-host/secret-path?secret-query", "https://secret-host/secret-path"]
    {
        assert!(!parse(text).unwrap_err().to_string().contains("secret"));
    }
}

#[test]
fn no_text_makes_the_parser_panic() {
    let pieces = ["https://", "a", ".", ":", "@", "[", "]", "%", "/", "?", "#", "\\", "\u{e9}", "\u{0}", "1", "x--"];
    for one in pieces {
        for two in pieces {
            for three in pieces {
                let _ = parse(&format!("https://{one}{two}{three}"));
                let _ = parse(&format!("https://a.example{one}{two}{three}/"));
                let _ = parse(&format!("{one}{two}{three}"));
            }
        }
    }
}
