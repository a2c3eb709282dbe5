//! The extenders of an existing configuration of kube-scheduler as backends of the gateway, each asked by
//! `extender-policies http-extender`. [`source`] finds them in a file, [`written`] writes the gateway's configuration.

mod names;
mod notes;
mod source;
#[cfg(test)]
mod tests;
mod written;

use std::{collections::BTreeSet, path::Path, time::Duration};

use extender_config::{
    Cursor, Fields, Node, Remedy, Section, Value, echo, go_duration, names::extended_resource,
};
use extender_gateway_settings::{ConfigErrors, Content};
use http::Uri;

use self::{names::Origin, source::wrong_form};

pub use written::Address;

/// kube-scheduler's timeout if none is set.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest timeout of the gateway.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(1);
/// The gateway's largest weight.
const LARGEST_WEIGHT: i128 = 1_000_000;

const EXTENDERS: &str = "a list of extenders, at least one";
const URL: &str = "http://HOST:PORT or https://HOST:PORT with or without a path";
const RESOURCES: &str = "a list such as [{name: example.com/gpu}]";
const TIMEOUT: &str = "a duration from 1ms to 1h such as 5s, 1.5s or 1m30s";

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
pub struct Import {
    extenders: Vec<Extender>,
    /// The fields that kube-scheduler ignored.
    ignored: Vec<String>,
}

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
    pub fn read(path: &Path) -> Result<Self, ConfigErrors> {
        let content = Content::read(path)?;
        let parsed = content.text().map_err(ConfigErrors::one).and_then(Self::parse);
        parsed.map_err(|errors| errors.in_file(path))
    }

    /// # Errors
    /// All mistakes of its extenders, with line and field.
    pub fn parse(text: &str) -> Result<Self, ConfigErrors> {
        let mut found = source::find(text)?;
        let ignored = without_unknown(&mut found.document);
        Ok(Self { extenders: found.check(read_root)?, ignored })
    }
}

impl Extender {
    fn has(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        self.tls.iter().flatten().any(|(field, _)| is_wanted(field))
    }
}

/// Removes the fields of extenders that a `Policy` may have, because it is decoded without strictness. Returns their paths.
fn without_unknown(document: &mut Node) -> Vec<String> {
    let Value::Mapping(pairs) = &mut document.value else { return Vec::new() };
    let is = |node: &Node, expected: &str| matches!(&node.value, Value::Text(text) if text == expected);
    if pairs.iter().any(|(key, kind)| is(key, "kind") && is(kind, "KubeSchedulerConfiguration")) {
        return Vec::new();
    }
    let mut removed = Vec::new();
    let extenders =
        pairs.iter_mut().filter(|(key, _)| is(key, "extenders")).map(|(_, value)| &mut value.value);
    for items in extenders {
        let Value::List(items) = items else { continue };
        for (position, item) in items.iter_mut().enumerate() {
            let Value::Mapping(fields) = &mut item.value else { continue };
            fields.retain(|(key, _)| {
                let Value::Text(name) = &key.value else { return true };
                let is_known = ENTRY.known.contains(&name.as_str());
                if !is_known {
                    removed.push(format!("extenders[{position}].{name}"));
                }
                is_known
            });
        }
    }
    removed
}

fn read_root(root: &Cursor<'_>) -> Option<Vec<Extender>> {
    check_form(root)?;
    let Some(list) = root.descend(&["extenders"]).filter(|list| !matches!(list.value(), Value::Null)) else {
        no_extenders(root);
        return None;
    };
    let items = list.items(EXTENDERS)?;
    if items.is_empty() {
        list.mistake("is empty", EXTENDERS);
        return None;
    }
    let mut names = BTreeSet::new();
    let read = items.into_iter().enumerate().map(|(position, item)| {
        let section = item.section(&ENTRY)?;
        read_extender(&section, position, &mut names)
    });
    let read: Vec<_> = read.collect();
    read.into_iter().collect()
}

/// A common mistake: `extenders` of a profile, which kube-scheduler does not read.
fn no_extenders(root: &Cursor<'_>) {
    let profiles = root.descend(&["profiles"]).and_then(|profiles| profiles.items_if_list());
    let misplaced = profiles.into_iter().flatten().find_map(|profile| profile.descend(&["extenders"]));
    match misplaced {
        Some(extenders) => extenders.mistake(
            "is not read by kube-scheduler, which has no extenders of a profile",
            Remedy::Do("move it to the top of the file, beside profiles"),
        ),
        None => root.mistake("has no extenders", EXTENDERS),
    }
}

fn check_form(root: &Cursor<'_>) -> Option<()> {
    const GROUP: &str = "kubescheduler.config.k8s.io/";
    let text = |field: &str| root.descend(&[field]).and_then(|field| field.text_if_any());
    let (kind, version) = (text("kind"), text("apiVersion"));
    let of_group = version.and_then(|version| version.strip_prefix(GROUP));
    let known = match kind {
        Some("KubeSchedulerConfiguration") => {
            matches!(of_group, Some("v1" | "v1beta1" | "v1beta2" | "v1beta3"))
        }
        // kube-scheduler 1.19 to 1.22 reads both.
        _ => matches!(version, None | Some("v1")) || of_group == Some("v1"),
    };
    if !known {
        wrong_form(root);
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
    let resources = optional(section, "managedResources", read_resources);
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
    let resources = resources?.unwrap_or_default();
    let resource = resources.first().map(|resource| &*resource.name);
    let origin = Origin { url_prefix: &url_prefix, host: &host, resource, position };
    Some(Extender {
        name: names::unique(origin, names),
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
        resources,
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
            let right = "nanoseconds, from 1ms to 1h such as 5000000000";
            let wrong = || format!("{nanoseconds} is out of range");
            let timeout = u64::try_from(nanoseconds).ok().map(Duration::from_nanos).and_then(in_range);
            field.accepted(timeout.ok_or_else(wrong), right).map(Some)
        }
        _ => match field.text(TIMEOUT)? {
            "0" | "0s" => Some(None),
            text => {
                let timeout =
                    go_duration::parse(text).ok_or_else(|| format!("{} is not a duration", echo(text)));
                let wrong = || format!("{} is out of range", echo(text));
                field
                    .accepted(timeout.and_then(|timeout| in_range(timeout).ok_or_else(wrong)), TIMEOUT)
                    .map(Some)
            }
        },
    }
}

/// From 1 ms to 1 h, in the whole milliseconds of the gateway's configuration, rounded up.
fn in_range(timeout: Duration) -> Option<Duration> {
    let milliseconds = u64::try_from(timeout.as_nanos().div_ceil(1_000_000)).ok()?;
    let rounded = Duration::from_millis(milliseconds);
    (timeout >= Duration::from_millis(1) && rounded <= LONGEST_TIMEOUT).then_some(rounded)
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

/// Each once, as kube-scheduler requires.
fn read_resources(field: &Cursor<'_>) -> Option<Vec<Resource>> {
    let mut names = BTreeSet::new();
    field.list(RESOURCES, |item| {
        let resource = read_resource(item.clone())?;
        if !names.insert(resource.name.clone()) {
            let again = item.descend(&["name"]).unwrap_or(item);
            again.mistake(
                format!("{} is there twice", echo(&resource.name)),
                Remedy::Do("remove one of them"),
            );
            return None;
        }
        Some(resource)
    })
}

fn read_resource(field: Cursor<'_>) -> Option<Resource> {
    let section = field.section(&RESOURCE)?;
    let right = "an extended resource such as example.com/gpu";
    let name = section.required("name", right);
    let name = name.and_then(|name| name.parsed(right, extended_resource));
    let ignored = optional(&section, "ignoredByScheduler", Cursor::boolean);
    Some(Resource { name: name?, ignored_by_scheduler: ignored?.unwrap_or_default() })
}
