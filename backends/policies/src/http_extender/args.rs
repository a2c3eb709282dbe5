//! The extender's entry in kube-scheduler's configuration, as args: the fields of an item of `extenders` keep their
//! names and meanings. What the gateway decides instead (weight, ignorable, managed resources) is a mistake that says
//! where it goes, unless it is the default: ignored silently, pods would be placed by other rules than before.

use std::{path::PathBuf, time::Duration};

use extender_config::go_duration;
use extender_policy_sdk::{Args, ArgsError};
use http::Uri;
use k8s_openapi::ByteString;
use serde::{Deserialize, Deserializer, de::Error as _};

/// kube-scheduler's timeout if none is set.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The part of an entry that matters here, checked.
#[derive(Debug)]
pub(super) struct Entry {
    /// Without slashes at the end.
    pub(super) url_prefix: String,
    pub(super) is_https: bool,
    pub(super) filter_verb: Option<String>,
    pub(super) prioritize_verb: Option<String>,
    pub(super) preempt_verb: Option<String>,
    pub(super) bind_verb: Option<String>,
    pub(super) node_cache_capable: bool,
    pub(super) timeout: Duration,
    pub(super) tls: Tls,
    pub(super) side_effects: Vec<Effective>,
}

/// A verb that may change something outside, such as an annotation of the pod. Bind always does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Effective {
    Filter,
    Prioritize,
    Preempt,
}

/// What an extender changes of which nothing is known: several reserve devices when they filter.
const ASSUMED_EFFECTS: [Effective; 1] = [Effective::Filter];

/// How an extender with an `https` URL is verified, and how it verifies the caller.
#[derive(Debug, Default)]
pub(super) struct Tls {
    pub(super) verification: Verification,
    /// The name that the extender's certificate must have; `None`: the URL's host.
    pub(super) server_name: Option<String>,
    pub(super) identity: Option<(Pem, Pem)>,
}

/// Which certificates of the extender are accepted.
#[derive(Debug, Default)]
pub(super) enum Verification {
    /// Those that the system trusts.
    #[default]
    System,
    /// Those of these CAs.
    Authorities(Pem),
    /// All: `insecure`, or `enableHTTPS` without a CA.
    None,
}

/// A file, or its content.
#[derive(Debug, Clone)]
pub(super) enum Pem {
    File(&'static str, PathBuf),
    Inline(&'static str, Secret),
}

/// Bytes that never get into a log.
#[derive(Clone)]
pub(super) struct Secret(pub(super) Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// `LegacyExtender` of `k8s.io/kube-scheduler/config/v1`, with what `Extender` of 1.18 called otherwise, and `sideEffects`,
/// which kube-scheduler does not have: it calls extenders for nothing but decisions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Given {
    url_prefix: String,
    filter_verb: Option<String>,
    prioritize_verb: Option<String>,
    preempt_verb: Option<String>,
    bind_verb: Option<String>,
    weight: Option<i64>,
    #[serde(rename = "enableHTTPS", alias = "enableHttps")]
    enable_https: Option<bool>,
    tls_config: Option<GivenTls>,
    http_timeout: Option<Timeout>,
    node_cache_capable: Option<bool>,
    managed_resources: Option<Vec<serde_json::Value>>,
    ignorable: Option<bool>,
    side_effects: Option<Vec<Effective>>,
}

/// `ExtenderTLSConfig`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GivenTls {
    insecure: Option<bool>,
    server_name: Option<String>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    cert_data: Option<ByteString>,
    key_data: Option<ByteString>,
    ca_data: Option<ByteString>,
}

/// A text such as `5s`, or nanoseconds as in the files of `--policy-config-file`.
struct Timeout(Duration);

impl<'de> Deserialize<'de> for Timeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Nanoseconds(u64),
        }
        const RIGHT: &str = "expected a duration such as 5s or 100ms";
        match Form::deserialize(deserializer).map_err(|_| D::Error::custom(RIGHT))? {
            Form::Nanoseconds(nanoseconds) => Ok(Self(Duration::from_nanos(nanoseconds))),
            Form::Text(text) => go_duration::parse(&text)
                .map(Self)
                .ok_or_else(|| D::Error::custom(format!("{text:?}; {RIGHT}"))),
        }
    }
}

impl Entry {
    /// Reads args.
    ///
    /// # Errors
    /// All mistakes, each with its field.
    pub(super) fn parse(args: &Args) -> Result<Self, ArgsError> {
        let given: Given = args.parse()?;
        let mut mistakes = elsewhere(&given);
        let url = checked_url(&given.url_prefix).map_err(|mistake| mistakes.push(mistake)).ok();
        let tls = tls(given.tls_config, given.enable_https.unwrap_or_default());
        let tls = tls.map_err(|wrong| mistakes.extend(wrong)).unwrap_or_default();
        let verb = |verb: Option<String>| verb.filter(|verb| !verb.is_empty());
        let entry = Self {
            is_https: url.as_ref().is_some_and(|(_, is_https)| *is_https),
            url_prefix: url.map(|(prefix, _)| prefix).unwrap_or_default(),
            filter_verb: verb(given.filter_verb),
            prioritize_verb: verb(given.prioritize_verb),
            preempt_verb: verb(given.preempt_verb),
            bind_verb: verb(given.bind_verb),
            node_cache_capable: given.node_cache_capable.unwrap_or_default(),
            timeout: given
                .http_timeout
                .map_or(DEFAULT_TIMEOUT, |Timeout(timeout)| timeout.max(Duration::ZERO)),
            tls,
            side_effects: given.side_effects.unwrap_or_else(|| ASSUMED_EFFECTS.to_vec()),
        };
        let verbs = [&entry.filter_verb, &entry.prioritize_verb, &entry.preempt_verb, &entry.bind_verb];
        mistakes.extend(verbs.into_iter().flatten().filter_map(|verb| wrong_verb(verb)));
        if entry.url_prefix.split('/').any(is_dots) || entry.url_prefix.contains(['%', '\\']) {
            mistakes.push(format!("args.urlPrefix: {:?} is no plain path; {PLAIN}", entry.url_prefix));
        }
        if verbs.into_iter().all(Option::is_none) {
            mistakes.push(
                "args has no verb; expected at least one of filterVerb, prioritizeVerb, preemptVerb and bindVerb"
                    .to_owned(),
            );
        }
        if mistakes.is_empty() {
            Ok(entry.with_default_timeout())
        } else {
            Err(ArgsError::new(mistakes.join("; ")))
        }
    }

    /// kube-scheduler takes 0 as unset.
    fn with_default_timeout(mut self) -> Self {
        if self.timeout.is_zero() {
            self.timeout = DEFAULT_TIMEOUT;
        }
        self
    }
}

/// The fields that belong to the gateway's entry, where they are not the default.
fn elsewhere(given: &Given) -> Vec<String> {
    let Given { weight, managed_resources, ignorable, .. } = given;
    let weight = weight.filter(|weight| !matches!(weight, 0 | 1)).map(|weight| {
        format!(
            "args.weight is {weight}: the gateway weighs scores; write `score: {{weight: {weight}}}` into this backend's entry and \
             remove it from args"
        )
    });
    let ignorable = ignorable.filter(|ignorable| *ignorable).map(|_| {
        "args.ignorable is true: the gateway decides what a failure means; write `failurePolicy: Ignore` into filter and \
         preempt of this backend's entry and remove it from args"
            .to_owned()
    });
    let resources = managed_resources.as_ref().filter(|resources| !resources.is_empty()).map(|_| {
        "args.managedResources: the gateway decides for which pods a backend is called; move it to \
         `match: {managedResources: …}` of this backend's entry"
            .to_owned()
    });
    weight.into_iter().chain(ignorable).chain(resources).collect()
}

const PLAIN: &str = "expected segments without \"..\", \".\", \"%\", \"\\\", \"?\" and \"#\"";

/// A verb leads below the prefix and nowhere else.
fn wrong_verb(verb: &str) -> Option<String> {
    let is_plain = !verb.split('/').any(is_dots) && !verb.contains(['?', '#', '%', '\\']);
    (!is_plain).then(|| format!("args has the verb {verb:?}; {PLAIN}"))
}

fn is_dots(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// The prefix without slashes at the end, and whether it is `https`.
fn checked_url(text: &str) -> Result<(String, bool), String> {
    const RIGHT: &str = "expected http://HOST:PORT or https://HOST:PORT with or without a path";
    let wrong = || format!("args.urlPrefix: {text:?} is not a URL; {RIGHT}");
    let url: Uri = text.parse().map_err(|_| wrong())?;
    let is_https = match url.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(wrong()),
    };
    let authority = url.authority().ok_or_else(wrong)?;
    if authority.as_str().contains('@') {
        return Err(format!("args.urlPrefix: a user name is not supported; {RIGHT}"));
    }
    if authority.host().is_empty() || url.query().is_some() || text.contains('#') {
        return Err(wrong());
    }
    Ok((text.trim_end_matches('/').to_owned(), is_https))
}

/// As `makeTransport` of kube-scheduler and `TLSConfigFor` of client-go.
fn tls(given: Option<GivenTls>, enable_https: bool) -> Result<Tls, Vec<String>> {
    let Some(given) = given else {
        let verification = if enable_https { Verification::None } else { Verification::System };
        return Ok(Tls { verification, ..Tls::default() });
    };
    let GivenTls { insecure, server_name, cert_file, key_file, ca_file, cert_data, key_data, ca_data } =
        given;
    let authorities = pem("caData", ca_data, "caFile", ca_file);
    let chain = pem("certData", cert_data, "certFile", cert_file);
    let key = pem("keyData", key_data, "keyFile", key_file);
    let mut mistakes = Vec::new();
    let verification = match (authorities, insecure.unwrap_or_default()) {
        (Some(_), true) => {
            mistakes.push(
                "args.tlsConfig has a CA and insecure: true, which contradict each other; remove one"
                    .to_owned(),
            );
            Verification::System
        }
        (Some(authorities), false) => Verification::Authorities(authorities),
        (None, true) => Verification::None,
        (None, false) if enable_https => Verification::None,
        (None, false) => Verification::System,
    };
    if chain.is_some() != key.is_some() {
        mistakes.push("args.tlsConfig has a certificate or a key; expected both, or neither".to_owned());
    }
    let server_name = server_name.filter(|name| !name.is_empty());
    if mistakes.is_empty() {
        Ok(Tls { verification, server_name, identity: chain.zip(key) })
    } else {
        Err(mistakes)
    }
}

/// Data counts before a file.
fn pem(
    data_field: &'static str,
    data: Option<ByteString>,
    file_field: &'static str,
    file: Option<PathBuf>,
) -> Option<Pem> {
    let data = data.filter(|data| !data.0.is_empty()).map(|data| Pem::Inline(data_field, Secret(data.0)));
    let file = file.filter(|file| !file.as_os_str().is_empty());
    data.or_else(|| file.map(|file| Pem::File(file_field, file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(yaml_like: &str) -> Result<Entry, String> {
        Entry::parse(&Args::new(yaml_like.as_bytes()).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_entry_of_kube_scheduler_can_be_pasted() {
        let entry = parse(
            r#"{"urlPrefix":"http://gpu:80/scheduler/","filterVerb":"predicates/always_true","prioritizeVerb":"",
                "weight":1,"nodeCacheCapable":true,"httpTimeout":"100ms","ignorable":false,"managedResources":[],
                "enableHTTPS":false}"#,
        )
        .unwrap();
        assert_eq!(entry.url_prefix, "http://gpu:80/scheduler");
        assert_eq!(entry.filter_verb.as_deref(), Some("predicates/always_true"));
        assert_eq!((entry.prioritize_verb, entry.bind_verb), (None, None));
        assert_eq!((entry.node_cache_capable, entry.timeout.as_millis()), (true, 100));
        for timeout in ["null", "0", "\"0s\""] {
            let entry =
                parse(&format!(r#"{{"urlPrefix":"http://a","bindVerb":"b","httpTimeout":{timeout}}}"#));
            assert_eq!(entry.unwrap().timeout, DEFAULT_TIMEOUT, "{timeout}");
        }
        let entry =
            parse(r#"{"urlPrefix":"http://a","bindVerb":"b","httpTimeout":100000000,"enableHttps":true}"#);
        assert_eq!(entry.unwrap().timeout.as_millis(), 100);
    }

    #[test]
    fn all_mistakes_come_together() {
        let said = parse(
            r#"{"urlPrefix":"gpu:80","weight":5,"ignorable":true,"managedResources":[{"name":"a.io/b"}],
                "tlsConfig":{"insecure":true,"caFile":"/ca.crt","certFile":"/tls.crt"}}"#,
        )
        .unwrap_err();
        for part in [
            "args.weight is 5: the gateway weighs scores; write `score: {weight: 5}`",
            "args.ignorable is true",
            "args.managedResources: the gateway decides",
            "args.urlPrefix: \"gpu:80\" is not a URL; expected http://HOST:PORT",
            "args.tlsConfig has a CA and insecure: true",
            "args.tlsConfig has a certificate or a key",
            "args has no verb",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn mistakes_name_their_field() {
        let with = |field: &str| {
            parse(&format!(r#"{{"urlPrefix":"http://a","filterVerb":"f",{field}}}"#)).unwrap_err()
        };
        for (field, part) in [
            (r#""httpTimeout":"-1s""#, "args.httpTimeout: \"-1s\"; expected a duration such as 5s"),
            (r#""httpTimeout":true"#, "args.httpTimeout: expected a duration"),
            (r#""filterVrb":"x""#, "args.filterVrb: unknown field"),
            (r#""tlsConfig":{"caFil":"x"}"#, "args.tlsConfig.caFil: unknown field"),
            (r#""tlsConfig":{"caData":"*"}"#, "args.tlsConfig.caData"),
        ] {
            let said = with(field);
            assert!(said.contains(part), "{field}: {said}");
        }
        for url in ["http://u:p@a", "ftp://a", "http://a?b=c", "a", "", "http:///x"] {
            let said = parse(&format!(r#"{{"urlPrefix":"{url}","filterVerb":"f"}}"#)).unwrap_err();
            assert!(said.starts_with("args.urlPrefix: "), "{url}: {said}");
        }
    }

    #[test]
    fn a_verb_leads_below_the_prefix() {
        for verb in ["../secret", "a/..", "filter?x=1", "filter#y", "%2e%2e/a", "./a", "a\\\\b"] {
            for field in ["filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb"] {
                let said = parse(&format!(r#"{{"urlPrefix":"http://a","{field}":"{verb}"}}"#)).unwrap_err();
                assert!(
                    said.starts_with("args has the verb ") && said.contains("expected segments"),
                    "{said}"
                );
            }
        }
        for prefix in ["http://a/../b", "http://a/%2e%2e", "http://a/./b"] {
            let said = parse(&format!(r#"{{"urlPrefix":"{prefix}","filterVerb":"f"}}"#)).unwrap_err();
            assert!(said.contains("is no plain path"), "{said}");
        }
    }

    #[test]
    fn certificates_are_verified_as_by_kube_scheduler() {
        let verification = |fields: &str| {
            let entry = parse(&format!(r#"{{"urlPrefix":"https://a","filterVerb":"f"{fields}}}"#)).unwrap();
            match entry.tls.verification {
                Verification::System => "system",
                Verification::Authorities(_) => "authorities",
                Verification::None => "none",
            }
        };
        for (fields, expected) in [
            ("", "system"),
            (r#","tlsConfig":{}"#, "system"),
            (r#","enableHTTPS":true"#, "none"),
            (r#","enableHTTPS":true,"tlsConfig":{"insecure":false,"serverName":"b"}"#, "none"),
            (r#","tlsConfig":{"insecure":true}"#, "none"),
            (r#","enableHTTPS":true,"tlsConfig":{"caFile":"/ca.crt"}"#, "authorities"),
            (r#","tlsConfig":{"caData":"YQ=="}"#, "authorities"),
        ] {
            assert_eq!(verification(fields), expected, "{fields}");
        }
    }

    #[test]
    fn a_key_never_gets_into_a_log() {
        let args =
            r#"{"urlPrefix":"https://a","filterVerb":"f","tlsConfig":{"certData":"YQ==","keyData":"YWJj"}}"#;
        let entry = format!("{:?}", parse(args).unwrap());
        assert!(entry.contains("Secret") && !entry.contains("97"), "{entry}");
    }
}
