//! What args may name. They come with each call, so whoever calls this policy would otherwise send requests to any address
//! and read any file through it.

use std::path::{Component, Path, PathBuf};

use http::Uri;

use super::args::{Entry, Pem, Verification};

/// The URLs and files that args may name; without any, all of them.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// Each allows itself and what is below it.
    pub urls: Vec<Url>,
    /// The same for files.
    pub files: Vec<PathBuf>,
}

/// The beginning of the URLs of an extender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    authority: String,
    /// Without slashes at the end.
    path: String,
}

impl Url {
    /// As clap parses it: `http://HOST:PORT` or `https://HOST:PORT`, with or without a path.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "expected http://HOST:PORT or https://HOST:PORT, with or without a path".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let scheme =
            uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https")).ok_or_else(wrong)?;
        let authority = uri.authority().filter(|_| uri.query().is_none()).ok_or_else(wrong)?;
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { scheme: scheme.to_owned(), authority: authority.as_str().to_lowercase(), path })
    }

    /// Whether the other is this one or below it.
    fn contains(&self, other: &Self) -> bool {
        let rest = other.path.strip_prefix(&self.path);
        self.scheme == other.scheme
            && self.authority == other.authority
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl Allowed {
    /// All mistakes of an entry that names something else.
    pub(super) fn check(&self, entry: &Entry) -> Result<(), Vec<String>> {
        if self.urls.is_empty() && self.files.is_empty() {
            return Ok(());
        }
        let url = Url::parse(&entry.url_prefix)
            .is_ok_and(|url| self.urls.iter().any(|allowed| allowed.contains(&url)));
        let url = (!url).then(|| {
            format!(
                "args.urlPrefix: {:?} is not allowed; start http-extender with --allow-url for it",
                entry.url_prefix
            )
        });
        let files = files(entry).filter(|(_, path)| !self.allows(path)).map(|(field, path)| {
            let path = path.display();
            format!(
                "args.tlsConfig.{field}: {path} is not allowed; start http-extender with --allow-file for it"
            )
        });
        let mistakes: Vec<_> = url.into_iter().chain(files).collect();
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }

    fn allows(&self, file: &Path) -> bool {
        let is_plain = file.components().all(|component| component != Component::ParentDir);
        is_plain && self.files.iter().any(|allowed| file.starts_with(allowed))
    }
}

/// The files that an entry names, with their fields.
fn files(entry: &Entry) -> impl Iterator<Item = (&'static str, &Path)> {
    let authorities = match &entry.tls.verification {
        Verification::Authorities(pem) => Some(pem),
        Verification::System | Verification::None => None,
    };
    let identity = entry.tls.identity.iter().flat_map(|(chain, key)| [chain, key]);
    authorities.into_iter().chain(identity).filter_map(|pem| match pem {
        Pem::File(field, path) => Some((*field, &**path)),
        Pem::Inline(..) => None,
    })
}

#[cfg(test)]
mod tests {
    use extender_policy_sdk::Args;
    use serde_json::{Value, json};

    use super::*;

    fn check(allowed: &Allowed, args: &Value) -> Result<(), Vec<String>> {
        let args = args.to_string();
        allowed.check(&Entry::parse(&Args::new(args.as_bytes()).unwrap()).unwrap())
    }

    fn allowed(urls: &[&str], files: &[&str]) -> Allowed {
        let urls = urls.iter().map(|url| Url::parse(url).unwrap()).collect();
        Allowed { urls, files: files.iter().map(PathBuf::from).collect() }
    }

    #[test]
    fn args_name_urls_that_are_allowed_and_below() {
        let allowed = allowed(&["http://gpu:80/scheduler/", "https://tas"], &[]);
        let check = |url: &str| check(&allowed, &json!({"urlPrefix": url, "filterVerb": "filter"}));
        for url in ["http://gpu:80/scheduler", "http://GPU:80/scheduler/a/", "https://tas", "https://tas/b"] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        for url in [
            "http://gpu:80",
            "http://gpu:80/schedulers",
            "http://gpu/scheduler",
            "http://tas",
            "https://tas.evil",
            "https://tas:1",
        ] {
            let expected = format!(
                "args.urlPrefix: {url:?} is not allowed; start http-extender with --allow-url for it"
            );
            assert_eq!(check(url), Err(vec![expected]));
        }
    }

    #[test]
    fn args_name_files_that_are_allowed_and_below() {
        let entry =
            |ca: &str| json!({"urlPrefix": "https://tas", "filterVerb": "f", "tlsConfig": {"caFile": ca}});
        let allowed = allowed(&["https://tas"], &["/etc/tas"]);
        assert_eq!(check(&allowed, &entry("/etc/tas/ca.crt")), Ok(()));
        for file in ["/etc/passwd", "/etc/tas/../passwd", "/etc/tas2/ca.crt", "ca.crt"] {
            let expected = format!(
                "args.tlsConfig.caFile: {file} is not allowed; start http-extender with --allow-file for it"
            );
            assert_eq!(check(&allowed, &entry(file)), Err(vec![expected]));
        }
        assert_eq!(check(&Allowed::default(), &entry("/etc/passwd")), Ok(()), "nothing is limited");
    }

    #[test]
    fn an_allowed_url_is_one() {
        for wrong in ["gpu:80", "ftp://gpu", "http://", "http://gpu?a=b", ""] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }
}
