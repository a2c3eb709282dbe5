//! The extenders of an existing configuration of kube-scheduler as backends of the gateway, each asked by
//! `extender-policies http-extender`. [`written`] writes the gateway's configuration.

#[cfg(test)]
mod tests;
mod written;

use std::{collections::BTreeSet, path::Path, time::Duration};

use extender_config::{Cursor, Fields, Mistakes, Remedy, Section, Value, echo, names};
use http::Uri;

use crate::config::{ConfigErrors, Content, parse_duration};

/// kube-scheduler's timeout if none is set.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// The gateway's largest weight.
const LARGEST_WEIGHT: i128 = 1_000_000;
/// The longest name of a backend.
const LONGEST_NAME: usize = 63;

const FORM: &str =
    "a KubeSchedulerConfiguration of kubescheduler.config.k8s.io, v1 or v1beta1 to v1beta3, or a Policy, v1";
const EXTENDERS: &str = "a list of extenders, at least one";
const URL: &str = "http://HOST:PORT or https://HOST:PORT with or without a path";
const RESOURCES: &str = "a list such as [{name: example.com/gpu}]";
const TIMEOUT: &str = "a duration of whole numbers from 1ms to 1h such as 5s, 100ms or 1m30s";

/// `LegacyExtender` of `k8s.io/kube-scheduler/config/v1`; `Extender` of v1 has the same fields. A `Policy` spells
/// `enableHttps` so.
const ENTRY: Fields = Fields::new(
    "an extender such as {urlPrefix: 'http://gpu:8888', filterVerb: filter}",
    &[
        "urlPrefix",
        "filterVerb",
        "preemptVerb",
        "prioritizeVerb",
        "weight",
        "bindVerb",
        "enableHTTPS",
        "enableHttps",
        "tlsConfig",
        "httpTimeout",
        "nodeCacheCapable",
        "managedResources",
        "ignorable",
    ],
);
const TLS: Fields = Fields::new("a mapping such as {caFile: ca.crt}", &TLS_FIELDS);
const TLS_FIELDS: [&str; 8] =
    ["insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData"];
const RESOURCE: Fields =
    Fields::new("a mapping such as {name: example.com/gpu}", &["name", "ignoredByScheduler"]);

/// The extenders of a file, at least one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import(Vec<Extender>);

/// One extender.
#[derive(Debug, PartialEq, Eq)]
struct Extender {
    /// A name for the backend, unique in the file.
    name: String,
    url_prefix: String,
    host: String,
    filter_verb: Option<String>,
    prioritize_verb: Option<String>,
    preempt_verb: Option<String>,
    bind_verb: Option<String>,
    weight: i128,
    node_cache_capable: bool,
    timeout: Duration,
    ignorable: bool,
    enable_https: bool,
    /// The fields of `tlsConfig`, `None` without it.
    tls: Option<Vec<(&'static str, TlsValue)>>,
    resources: Vec<Resource>,
}

#[derive(Debug, PartialEq, Eq)]
enum TlsValue {
    Flag(bool),
    Text(String),
}

#[derive(Debug, PartialEq, Eq)]
struct Resource {
    name: String,
    ignored_by_scheduler: bool,
}

impl Import {
    /// Reads a file; `-` is standard input.
    ///
    /// # Errors
    /// All mistakes of its extenders, with file, line and field.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigErrors> {
        let content = Content::read(path)?;
        let parsed = content.text().map_err(ConfigErrors::one).and_then(Self::parse);
        parsed.map_err(|errors| errors.in_file(path))
    }

    /// # Errors
    /// All mistakes of its extenders, with line and field.
    pub(crate) fn parse(text: &str) -> Result<Self, ConfigErrors> {
        let document = extender_config::parse(text).map_err(ConfigErrors::one)?;
        let mistakes = Mistakes::default();
        let extenders = read_root(&Cursor::root(&document, &mistakes));
        Ok(Self(mistakes.settle(extenders)?))
    }

    /// Whether kube-scheduler may go on without all of them. A binder cannot be ignored.
    pub(crate) fn is_ignorable(&self) -> bool {
        self.0.iter().all(|extender| extender.ignorable)
    }

    /// What the operator has to decide or to do besides.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "exempt.namespaces is [], so that the extenders are asked about the same pods as before; add the namespaces of the \
             gateway and of http-extender, so that they can start without each other"
                .to_owned(),
        ];
        let names = |of: fn(&Extender) -> bool| {
            let names: Vec<_> =
                self.0.iter().filter(|extender| of(extender)).map(|extender| &*extender.name).collect();
            Some(names.join(", ")).filter(|names| !names.is_empty())
        };
        if let Some(local) = names(Extender::is_local) {
            notes
                .push(format!("{local}: urlPrefix is loopback; run http-extender on the extender's machine"));
        }
        if let Some(files) = names(|extender| extender.has(|field| field.ends_with("File"))) {
            notes.push(format!("{files}: the files of tlsConfig must exist where http-extender runs"));
        }
        if let Some(secrets) = names(|extender| extender.has(|field| field == "keyData")) {
            notes.push(format!(
                "{secrets}: keyData is a secret, now in args; better put it into a file and use keyFile"
            ));
        }
        if let Some(unverified) = names(Extender::is_unverified) {
            notes.push(format!(
                "{unverified}: the extender's certificate is not verified, as before; set caFile"
            ));
        }
        notes
    }
}

impl Extender {
    fn has(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        self.tls.iter().flatten().any(|(field, _)| is_wanted(field))
    }

    fn is_local(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    fn is_unverified(&self) -> bool {
        let is_insecure = self.tls.iter().flatten().any(|(_, value)| *value == TlsValue::Flag(true));
        let is_https = self.url_prefix.starts_with("https:");
        is_https && (is_insecure || (self.enable_https && !self.has(|field| field.starts_with("ca"))))
    }
}

fn read_root(root: &Cursor<'_>) -> Option<Vec<Extender>> {
    check_form(root)?;
    let Some(list) = root.descend(&["extenders"]).filter(|list| !matches!(list.value(), Value::Null)) else {
        root.mistake("has no extenders", EXTENDERS);
        return None;
    };
    let items = list.items(EXTENDERS)?;
    if items.is_empty() {
        list.mistake("is empty", EXTENDERS);
        return None;
    }
    let mut names = BTreeSet::new();
    let mut binder: Option<String> = None;
    let read: Vec<_> = items
        .into_iter()
        .enumerate()
        .map(|(position, item)| {
            let section = item.section(&ENTRY)?;
            let extender = read_extender(&section, position, &mut names)?;
            if extender.bind_verb.is_some()
                && let Some(first) = binder.replace(extender.name.clone())
            {
                section.mistake_of(
                    "bindVerb",
                    format!("is set a second time, after {first}"),
                    Remedy::Do("remove one of them, as kube-scheduler requires"),
                );
                return None;
            }
            Some(extender)
        })
        .collect();
    read.into_iter().collect()
}

fn check_form(root: &Cursor<'_>) -> Option<()> {
    let text = |field: &str| root.descend(&[field]).and_then(|field| field.text_if_any());
    let (kind, version) = (text("kind"), text("apiVersion"));
    let known = match (kind, version) {
        (Some("KubeSchedulerConfiguration"), Some(version)) => {
            let version = version.strip_prefix("kubescheduler.config.k8s.io/");
            version.is_some_and(|version| matches!(version, "v1" | "v1beta1" | "v1beta2" | "v1beta3"))
        }
        (Some("Policy"), version) => matches!(version, None | Some("v1")),
        _ => false,
    };
    if !known {
        let shown = |text: Option<&str>| text.map_or_else(|| "none".to_owned(), echo);
        root.mistake(format!("has kind {} and apiVersion {}", shown(kind), shown(version)), FORM);
    }
    known.then_some(())
}

fn read_extender(section: &Section<'_>, position: usize, names: &mut BTreeSet<String>) -> Option<Extender> {
    let url = section.required("urlPrefix", URL).and_then(|field| field.parsed(URL, checked_url));
    let verb = |name: &str| {
        let verb = optional(section, name, |field| field.text("the end of a path such as filter"))?;
        Some(verb.filter(|verb| !verb.is_empty()).map(str::to_owned))
    };
    let (filter, prioritize) = (verb("filterVerb"), verb("prioritizeVerb"));
    let (preempt, bind) = (verb("preemptVerb"), verb("bindVerb"));
    let flag = |name: &str| Some(optional(section, name, Cursor::boolean)?.unwrap_or_default());
    let (capable, ignorable) = (flag("nodeCacheCapable"), flag("ignorable"));
    let (https, legacy_https) = (flag("enableHTTPS"), flag("enableHttps"));
    let weight = optional(section, "weight", whole);
    let timeout = optional(section, "httpTimeout", read_timeout);
    let tls = optional(section, "tlsConfig", |field| read_tls(&field.clone().section(&TLS)?));
    let resources = optional(section, "managedResources", |field| field.list(RESOURCES, read_resource));
    let (url_prefix, host) = url?;
    let (filter_verb, prioritize_verb, preempt_verb, bind_verb) = (filter?, prioritize?, preempt?, bind?);
    let weight = weight?.unwrap_or_default();
    if prioritize_verb.is_some() && !(1..=LARGEST_WEIGHT).contains(&weight) {
        section.mistake_of(
            "weight",
            format!("is {weight}"),
            "a whole number from 1 to 1000000, because prioritizeVerb is set",
        );
        return None;
    }
    if [&filter_verb, &prioritize_verb, &preempt_verb, &bind_verb].into_iter().all(Option::is_none) {
        section.mistake(
            "has no verb",
            Remedy::Do(
                "remove it; a resource that kube-scheduler ignores belongs to the backend that counts it",
            ),
        );
        return None;
    }
    Some(Extender {
        name: unique(&host, position, names),
        url_prefix,
        host,
        filter_verb,
        prioritize_verb,
        preempt_verb,
        bind_verb,
        weight,
        node_cache_capable: capable?,
        timeout: timeout?.flatten().unwrap_or(DEFAULT_TIMEOUT),
        ignorable: ignorable?,
        enable_https: https? || legacy_https?,
        tls: tls?,
        resources: resources?.unwrap_or_default(),
    })
}

/// The value of a field, `None` inside if it is not set or null; `None` if it has a mistake.
#[expect(clippy::option_option, reason = "the outer one is that of all readers: a mistake")]
fn optional<'a, T>(
    section: &Section<'a>,
    name: &str,
    read: impl FnOnce(&Cursor<'a>) -> Option<T>,
) -> Option<Option<T>> {
    match section.optional(name).filter(|field| !matches!(field.value(), Value::Null)) {
        None => Some(None),
        Some(field) => read(&field).map(Some),
    }
}

fn checked_url(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("{} is not a URL", echo(text));
    let url: Uri = text.parse().map_err(|_| wrong())?;
    let host = url.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
    let has_user = url.authority().is_some_and(|authority| authority.as_str().contains('@'));
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    if !is_http || has_user || url.query().is_some() || text.contains('#') {
        return Err(wrong());
    }
    Ok((text.trim_end_matches('/').to_owned(), host.to_owned()))
}

fn whole(field: &Cursor<'_>) -> Option<i128> {
    let Value::Integer(number) = field.value() else {
        field.wrong_kind("a whole number");
        return None;
    };
    Some(*number)
}

/// A text, or the nanoseconds of a `Policy`. `None` inside for 0, which kube-scheduler takes as unset.
#[expect(clippy::option_option, reason = "the outer one is that of all readers: a mistake")]
fn read_timeout(field: &Cursor<'_>) -> Option<Option<Duration>> {
    match field.value() {
        Value::Integer(0) => Some(None),
        Value::Integer(_) => {
            let nanoseconds = whole(field)?;
            let milliseconds = u64::try_from(nanoseconds / 1_000_000).unwrap_or_default();
            let text = format!("{milliseconds}ms");
            let right = "nanoseconds, a whole number of milliseconds from 1ms to 1h such as 5000000000";
            field
                .accepted(parse_duration(&text).map_err(|_| format!("{nanoseconds} is out of range")), right)
                .map(Some)
        }
        _ => match field.text(TIMEOUT)? {
            "0" | "0s" => Some(None),
            text => field.accepted(parse_duration(text), TIMEOUT).map(Some),
        },
    }
}

fn read_tls(section: &Section<'_>) -> Option<Vec<(&'static str, TlsValue)>> {
    let mut values = Vec::new();
    for name in TLS_FIELDS {
        let value = if name == "insecure" {
            optional(section, name, Cursor::boolean)?.map(TlsValue::Flag)
        } else {
            optional(section, name, |field| field.text("a string"))?
                .filter(|text| !text.is_empty())
                .map(|text| TlsValue::Text(text.to_owned()))
        };
        values.extend(value.map(|value| (name, value)));
    }
    Some(values)
}

fn read_resource(field: Cursor<'_>) -> Option<Resource> {
    let section = field.section(&RESOURCE)?;
    let right = "an extended resource such as example.com/gpu";
    let name = section.required("name", right);
    let name = name.and_then(|name| name.parsed(right, names::extended_resource));
    let ignored = optional(&section, "ignoredByScheduler", Cursor::boolean);
    Some(Resource { name: name?, ignored_by_scheduler: ignored?.unwrap_or_default() })
}

/// A name for a backend: the first part of the URL's host, or the position of the extender.
fn unique(host: &str, position: usize, names: &mut BTreeSet<String>) -> String {
    let first = host.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_name = first.starts_with(|c: char| c.is_ascii_lowercase())
        && first.ends_with(|c: char| c.is_ascii_alphanumeric())
        && first.len() < LONGEST_NAME - 4
        && first.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && first != "localhost";
    let base = if is_name { first } else { format!("extender-{}", position + 1) };
    let mut candidates = std::iter::once(base.clone()).chain((2..).map(|number| format!("{base}-{number}")));
    let name = candidates.find(|name| !names.contains(name)).unwrap_or(base);
    names.insert(name.clone());
    name
}
