//! What would become of a delivery to a URL, step by step: through the doors that a delivery goes through, up to the one
//! where it would connect. Repeats nothing of the URL but scheme, host and port.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use serde::Serialize;

use super::{blame, destinations, resolver};
use crate::address::{
    AddressClass, Destination, Judgement, PinError, Policy, Resolver, Rule, UrlError, UrlRules, look_up,
};
use crate::config::{CompatPolicy, Config};
use crate::deliver::SnapshotError;
use crate::verdict::{Cause, StatusPolicy};

#[cfg(test)]
mod tests;

/// What of the configuration a trace needs: `[egress]`, and how rows are judged.
pub(crate) struct Tracer {
    rules: UrlRules,
    policy: Policy,
    resolver: Resolver,
    servers: &'static str,
    limit: Duration,
    judged_by: StatusPolicy,
}

/// A public interface: members are added and never change.
#[derive(Debug, Serialize)]
pub(crate) struct Trace {
    pub(crate) verdict: Outcome,
    /// The outcome code of an attempt that ended here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
    /// What becomes of the row, who can mend it, and what the code means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) row: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mended_by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) meaning: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scheme: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u16>,
    /// The first address that is refused, and with it all the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused_by: Option<IpAddr>,
    /// In the order in which they would be tried.
    pub(crate) connects_to: Vec<SocketAddr>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Allowed,
    Refused,
    /// Nothing is known against it, and nothing to connect to.
    Unresolved,
}

impl Outcome {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Outcome::Allowed => "allowed",
            Outcome::Refused => "refused",
            Outcome::Unresolved => "unresolved",
        }
    }
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Step {
    pub(crate) step: &'static str,
    pub(crate) result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<IpAddr>,
    /// The IPv4 address that was judged in place of `address`, which carries it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) carries: Option<Ipv4Addr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<&'static str>,
    /// What decided: the rule for URLs, or what of the policy named the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<IpNet>,
    /// Who set the network aside, or which setting names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<&'static str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    /// The setting that would let it pass. Absent where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) opened_by: Option<&'static str>,
}

impl Step {
    fn passed(step: &'static str, detail: String) -> Step {
        Step { step, result: "ok", detail, ..Step::default() }
    }
}

impl Tracer {
    pub(crate) fn new(config: &Config) -> Result<Tracer, SnapshotError> {
        let (rules, policy) = destinations(config)?;
        let egress = &config.settings.egress;
        Ok(Tracer {
            rules,
            policy,
            resolver: resolver(config)?,
            servers: if egress.dns_servers.is_empty() { "/etc/resolv.conf" } else { "egress.dns_servers" },
            limit: egress.attempt_timeout,
            judged_by: match config.settings.compat.policy {
                CompatPolicy::Default => StatusPolicy::Default,
                CompatPolicy::Sdk => StatusPolicy::Sdk,
            },
        })
    }

    pub(crate) async fn trace(&self, url: &str) -> Trace {
        let destination = match Destination::parse(url, &self.rules) {
            Ok(destination) => destination,
            Err(error) => return self.refused_url(error),
        };
        let (host, port) = (destination.host(), destination.port());
        let kind = if destination.is_literal() { "an address" } else { "a name" };
        let mut trace = Trace {
            verdict: Outcome::Allowed,
            code: None,
            row: None,
            mended_by: None,
            meaning: None,
            scheme: Some("https"),
            host: Some(host.clone()),
            port: Some(port),
            refused_by: None,
            connects_to: Vec::new(),
            steps: vec![
                Step::passed("parse", format!("https://{}", destination.origin())),
                Step::passed("host", format!("{kind}, {host}")),
                Step::passed("port", port.to_string()),
            ],
        };
        let looking = look_up(&destination, &self.policy, &self.resolver);
        let answers = match tokio::time::timeout(self.limit, looking).await.unwrap_or(Err(PinError::Timeout)) {
            Ok(answers) => answers,
            Err(error) => {
                let outcome = match error {
                    PinError::TooManyAddresses => Outcome::Refused,
                    _ => Outcome::Unresolved,
                };
                let result = if outcome == Outcome::Refused { "refused" } else { "failed" };
                let cause = blame::pin(&error);
                trace.steps.push(Step {
                    step: "dns",
                    result,
                    source: Some(self.servers),
                    detail: error.to_string(),
                    ..Step::default()
                });
                return self.ended(trace, outcome, cause);
            }
        };
        if !destination.is_literal() {
            let count = answers.judged().len();
            let detail = format!("{count} address{}", if count == 1 { "" } else { "es" });
            trace.steps.push(Step { source: Some(self.servers), ..Step::passed("dns", detail) });
        }
        trace.steps.extend(answers.judged().iter().map(|(address, judgement)| judged(*address, judgement)));
        match answers.pinned(&destination) {
            Ok(pinned) => {
                trace.connects_to = pinned.addresses().to_vec();
                trace
            }
            Err(error) => {
                if let PinError::Forbidden { addr, .. } | PinError::ForbiddenLiteral { addr, .. } = error {
                    trace.refused_by = Some(addr);
                }
                self.ended(trace, Outcome::Refused, blame::pin(&error))
            }
        }
    }

    fn refused_url(&self, error: UrlError) -> Trace {
        let step = match error {
            UrlError::NoHost
            | UrlError::Host
            | UrlError::AmbiguousHost
            | UrlError::HostSpelling
            | UrlError::SpecialUseName => "host",
            UrlError::Port | UrlError::PortNotAllowed => "port",
            UrlError::TooLong
            | UrlError::ControlCharacter
            | UrlError::NotHttps
            | UrlError::UserInfo
            | UrlError::AuthorityCharacter
            | UrlError::Unparsable
            | UrlError::Target
            | UrlError::Disagreement => "parse",
        };
        let opened_by = match error {
            UrlError::SpecialUseName => Some("egress.allow_hosts"),
            UrlError::PortNotAllowed => Some("egress.ports"),
            _ => None,
        };
        let (rule, detail) = (Some(error.code()), error.to_string());
        let trace = Trace {
            verdict: Outcome::Refused,
            code: None,
            row: None,
            mended_by: None,
            meaning: None,
            scheme: None,
            host: None,
            port: None,
            refused_by: None,
            connects_to: Vec::new(),
            steps: vec![Step { step, result: "refused", rule, detail, opened_by, ..Step::default() }],
        };
        self.ended(trace, Outcome::Refused, blame::url(&error))
    }

    fn ended(&self, trace: Trace, verdict: Outcome, cause: Cause) -> Trace {
        Trace {
            verdict,
            code: Some(cause.code()),
            row: Some(cause.class(self.judged_by).consequence()),
            mended_by: Some(cause.blame().who()),
            meaning: Some(cause.meaning()),
            ..trace
        }
    }
}

fn judged(address: IpAddr, judgement: &Judgement) -> Step {
    let class = judgement.class;
    let (rule, network, source, reason) = match judgement.rule {
        Rule::Range(range) => ("range", Some(range.net), Some(range.source), Some(range.reason)),
        Rule::Allow(net, range) => ("allow", Some(net), Some("egress.allow"), Some(range.reason)),
        Rule::Deny(net) => ("deny", Some(net), Some("egress.deny"), None),
        Rule::Own => ("own_address", None, Some("this machine's interfaces"), Some("comes back to this machine")),
        Rule::Isatap => {
            ("isatap", None, Some("RFC 5214"), Some("carries an IPv4 address inside, for a router to unpack"))
        }
        Rule::Nat64(prefix) => {
            let reason = "has bits set that no translator sets (RFC 6052, section 2.2)";
            ("nat64", Some(IpNet::V6(prefix.net())), Some("egress.nat64_prefixes"), Some(reason))
        }
    };
    Step {
        step: "address",
        result: if class.is_allowed() { "allowed" } else { "refused" },
        address: Some(address),
        carries: judgement.carried,
        class: Some(class.code()),
        rule: Some(rule),
        network,
        source,
        detail: class.to_string(),
        reason,
        opened_by: opened_by(judgement),
    }
}

fn opened_by(judgement: &Judgement) -> Option<&'static str> {
    match (judgement.class, judgement.rule) {
        (AddressClass::Denied, _) => Some("egress.deny"),
        (AddressClass::OwnAddress, _) => Some("egress.allow, by an entry of full length"),
        (AddressClass::EmbedsIpv4, Rule::Range(range)) if range.is_nat64() => Some("egress.nat64_prefixes"),
        (class, _) if class.may_be_admitted() => Some("egress.allow"),
        _ => None,
    }
}
