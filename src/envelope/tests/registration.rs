//! Registrations: the vectors of the real writer, and the rules for a registered URL.

use super::*;

#[test]
fn every_registration_vector_opens_or_is_refused_as_by_the_reference() {
    for vector in vectors("registration") {
        let name = vector["name"].as_str().unwrap();
        let column = |name: &str| vector["row"][name].as_str().unwrap();
        let sealed = SealedRegistration {
            account_id: column("account_id"),
            task_id: column("task_id"),
            task_type: column("task_type"),
            ciphertext: hex(&vector["ciphertext_hex"]),
            nonce: &hex(&vector["nonce_hex"]),
        };
        let ring = ring_of(&[hex(&vector["key_hex"]).try_into().unwrap()]);
        let opened = open_registration(sealed, &ring, HMAC_ON);
        if vector["expect"] != "ok" {
            let expected = match name {
                "registration-account-swapped" | "registration-task-type-swapped" => OpenError::Unopenable,
                "registration-http-url" => OpenError::Malformed(EnvelopeFault::Url(UrlFault::NotHttps)),
                "registration-userinfo-url" => OpenError::Malformed(EnvelopeFault::Url(UrlFault::Userinfo)),
                "registration-missing-operation-id" => {
                    OpenError::Malformed(EnvelopeFault::Member { member: "operation_id" })
                }
                "registration-scope-with-auth" => OpenError::Malformed(EnvelopeFault::ScopeWithAuthentication),
                _ => panic!("{name}: no expectation"),
            };
            assert_eq!(opened.unwrap_err(), expected, "{name}");
            continue;
        }
        let opened = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = &vector["opened"];
        let text = |secret: &crate::secret::Secret| String::from_utf8(secret.expose().to_vec()).unwrap();
        assert_eq!(expected["url"], opened.url, "{name}");
        assert_eq!(expected["operation_id"], opened.operation_id, "{name}");
        assert_eq!(expected["token"].as_str().map(str::to_owned), opened.token.as_ref().map(text), "{name}");
        assert_eq!(expected["signing_scope_id"].as_str(), opened.signing_scope_id.as_deref(), "{name}");
        let authentication = opened.authentication.map(|authentication| match authentication {
            Authentication::Bearer(secret) => ("Bearer", text(&secret)),
            Authentication::HmacSha256(secret) => ("HMAC-SHA256", text(&secret)),
            Authentication::StandardWebhooks(_) => unreachable!("the reference has no such scheme"),
        });
        let expected = &expected["authentication"];
        let expected = expected["scheme"].as_str().zip(expected["credentials"].as_str().map(str::to_owned));
        assert_eq!(authentication, expected, "{name}");
    }
}

#[test]
fn registered_urls_follow_the_rules_of_registering() {
    let open_url = |url: &str| {
        let plaintext = serde_json::json!({"url": url, "operation_id": "op"}).to_string();
        let aad = Aad::registration("acc", "task", "create_media_buy");
        let ciphertext = seal(&aad, &key(1), NONCE, plaintext.into_bytes());
        let sealed = SealedRegistration {
            account_id: "acc",
            task_id: "task",
            task_type: "create_media_buy",
            ciphertext,
            nonce: &NONCE,
        };
        match open_registration(sealed, &ring_of(&[[1; 32]]), HMAC_ON) {
            Ok(registration) => {
                assert_eq!(registration.url, url);
                Ok(())
            }
            Err(OpenError::Malformed(EnvelopeFault::Url(fault))) => Err(fault),
            Err(other) => panic!("{url}: {other}"),
        }
    };
    let long = format!("https://b.example/{}", "é".repeat(2030));
    for good in ["https://b.example/h", "HTTPS://b.example", "https://b.example:8443/h?q#fragment", &long] {
        assert_eq!(open_url(good), Ok(()), "{good}");
    }
    let cases = [
        ("http://b.example/h", UrlFault::NotHttps),
        ("https:/b.example/h", UrlFault::NotHttps),
        ("//b.example/h", UrlFault::NotHttps),
        ("", UrlFault::NotHttps),
        ("https:///h", UrlFault::NoHost),
        ("https://?q", UrlFault::NoHost),
        ("https://:443/h", UrlFault::NoHost),
        ("https://u@b.example/h", UrlFault::Userinfo),
        ("https://u:p@b.example/h", UrlFault::Userinfo),
        ("https://@b.example/h", UrlFault::Userinfo),
        ("https://b.exa\tmple/h", UrlFault::Unparsable),
        ("https://b.example:99999/h", UrlFault::Unparsable),
        (&format!("{long}x"), UrlFault::TooLong),
    ];
    for (url, expected) in cases {
        assert_eq!(open_url(url), Err(expected), "{url}");
    }
}
