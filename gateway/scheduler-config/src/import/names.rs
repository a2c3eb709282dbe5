//! Names for backends: users read them in the events of pods.

use std::{collections::BTreeSet, net::IpAddr};

/// The longest name of a backend.
const LONGEST: usize = 63;
/// Room for a number behind a name that is taken.
const NUMBER: usize = 4;
/// Parts of paths that name nothing.
const GENERIC: [&str; 7] = ["scheduler", "scheduling", "extender", "api", "v1", "apis", "schedule"];

/// Where a name for an extender may come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    /// `urlPrefix` without slashes at the end.
    pub(super) url_prefix: &'a str,
    /// Its host.
    pub(super) host: &'a str,
    /// The first managed resource.
    pub(super) resource: Option<&'a str>,
    /// Its position in the file.
    pub(super) position: usize,
}

/// A name that is not taken, and takes it: the first part of the URL's host, or of its path if the host is an address, or
/// of the resource's domain, or the position of the extender.
pub(super) fn unique(origin: Origin<'_>, names: &mut BTreeSet<String>) -> String {
    let Origin { url_prefix, host, resource, position } = origin;
    let host = Some(host).filter(|host| !is_address(host)).and_then(|host| label(host.split('.').next()?));
    let path = url_prefix.split('/').skip(3).filter_map(label).find(|part| !GENERIC.contains(&part.as_str()));
    let resource = resource.and_then(|resource| label(resource.split(['.', '/']).next()?));
    let base = host.or(path).or(resource).unwrap_or_else(|| format!("extender-{}", position + 1));
    let mut candidates = std::iter::once(base.clone()).chain((2..).map(|number| format!("{base}-{number}")));
    let name = candidates.find(|name| !names.contains(name)).unwrap_or(base);
    names.insert(name.clone());
    name
}

/// Whether a host names no service: an IP address or `localhost`.
fn is_address(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// The text in lower case, if it can be the name of a backend.
fn label(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let is_name = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() < LONGEST - NUMBER
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name.then_some(text)
}
