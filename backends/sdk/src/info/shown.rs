//! The paths at which a policy shows its state: as declared, and checked by the contract's rules.

use extender_policy_api::v1alpha1 as api;

/// Limits of the contract.
const MAX_PATHS: usize = 64;
const MAX_BYTES: usize = 256;

/// The form of a path, for messages.
const FORM: &str = "expected segments such as \"/quotas/:namespace\", of letters, digits, \"-\", \".\", \"_\" and \"~\", or \
                    a parameter: a colon with a letter and further letters, digits and \"_\"";

/// A path that a policy shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownPath {
    pub(super) path: String,
    pub(super) description: String,
}

impl ShownPath {
    /// As declared, such as `/quotas/:namespace`.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The names of the path's parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        segments(&self.path).filter_map(|segment| segment.strip_prefix(':'))
    }

    pub(super) fn message(&self) -> api::IntrospectionPath {
        api::IntrospectionPath { path: self.path.clone(), description: self.description.clone() }
    }

    fn mistakes(&self) -> Vec<String> {
        let Self { path, description } = self;
        let names: Vec<_> = self.parameters().collect();
        let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
        let found = [
            (path.len() > MAX_BYTES)
                .then(|| format!("has {} bytes; expected at most {MAX_BYTES}", path.len())),
            (!is_well_formed(path)).then(|| format!("is invalid; {FORM}")),
            segments(path).find(|segment| matches!(*segment, "." | "..")).map(|segment| {
                format!("has the segment {segment:?}, which clients remove from a URL; use another text")
            }),
            twice.map(|(_, name)| format!("has two parameters {name:?}; rename one")),
            (description.len() > MAX_BYTES).then(|| {
                format!("has a description of {} bytes; expected at most {MAX_BYTES}", description.len())
            }),
            description
                .contains(char::is_control)
                .then(|| "has a description with a control character; expected one line".to_owned()),
        ];
        found
            .into_iter()
            .flatten()
            .map(|mistake| format!("the path {:?} {mistake}", shortened(path)))
            .collect()
    }
}

/// All mistakes of the declared paths.
pub(super) fn mistakes(shown: &[ShownPath]) -> Vec<String> {
    let too_many = (shown.len() > MAX_PATHS).then(|| {
        format!("{} paths are shown; expected at most {MAX_PATHS}, use parameters and the query", shown.len())
    });
    let own = shown.iter().flat_map(ShownPath::mistakes);
    let equal = shown.iter().enumerate().filter_map(|(at, path)| {
        let earlier = shown[..at].iter().find(|earlier| shape(&earlier.path).eq(shape(&path.path)))?;
        Some(equal_shapes(&earlier.path, &path.path))
    });
    too_many.into_iter().chain(own).chain(equal).collect()
}

fn equal_shapes(one: &str, other: &str) -> String {
    let (one, other) = (shortened(one), shortened(other));
    if one == other {
        return format!("the path {one:?} is shown twice; remove one");
    }
    format!("the paths {one:?} and {other:?} differ only in the names of parameters; remove one")
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('/').unwrap_or(path).split('/')
}

/// The segments, with parameters as `None`: requests cannot tell two paths of one shape apart.
fn shape(path: &str) -> impl Iterator<Item = Option<&str>> {
    segments(path).map(|segment| (!segment.starts_with(':')).then_some(segment))
}

fn is_well_formed(path: &str) -> bool {
    path.starts_with('/')
        && segments(path).all(|segment| match segment.strip_prefix(':') {
            Some(name) => is_name(name),
            None => is_literal(segment),
        })
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_literal(segment: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    !segment.is_empty() && segment.bytes().all(is_allowed)
}

/// The beginning of a path, for messages.
fn shortened(path: &str) -> &str {
    &path[..path.floor_char_boundary(MAX_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(paths: &[&str]) -> Vec<ShownPath> {
        let shown = |path: &&str| ShownPath { path: (*path).to_owned(), description: String::new() };
        paths.iter().map(shown).collect()
    }

    #[test]
    fn paths_of_the_contracts_form_pass() {
        let longest = format!("/{}", "a".repeat(255));
        let paths = ["/quotas", "/quotas/:namespace", "/quotas/all", "/:a/:b_2", "/-._~/A9", &longest];
        assert_eq!(mistakes(&shown(&paths)), [""; 0]);
        let most: Vec<_> = (0..64).map(|at| format!("/{at}")).collect();
        assert_eq!(mistakes(&shown(&most.iter().map(|path| &**path).collect::<Vec<_>>())), [""; 0]);
    }

    #[test]
    fn each_mistake_is_named_with_its_path() {
        for path in
            ["", "/", "quotas", "/a/", "//a", "/a b", "/ä", "/a/:", "/:1", "/:a-b", "/a:b", "/a?b", "/%20"]
        {
            let [mistake] = mistakes(&shown(&[path])).try_into().unwrap();
            assert!(mistake.starts_with(&format!("the path {path:?} is invalid; expected")), "{mistake}");
        }
        let (long, many) = (format!("/{}", "a".repeat(256)), (0..65).map(|at| format!("/{at}")));
        let described = |description: &str| {
            mistakes(&[ShownPath { path: "/a".to_owned(), description: description.to_owned() }])
        };
        for (found, expected) in [
            (mistakes(&shown(&[&long])), "has 257 bytes; expected at most 256"),
            (
                mistakes(&shown(&["/a/../b"])),
                "\"/a/../b\" has the segment \"..\", which clients remove from a URL",
            ),
            (mistakes(&shown(&["/."])), "has the segment \".\""),
            (mistakes(&shown(&["/:a/b/:a"])), "has two parameters \"a\""),
            (mistakes(&shown(&["/a", "/a"])), "the path \"/a\" is shown twice; remove one"),
            (mistakes(&shown(&["/a/:b", "/a/:c"])), "\"/a/:b\" and \"/a/:c\" differ only in the names"),
            (
                mistakes(&shown(&many.collect::<Vec<_>>().iter().map(|path| &**path).collect::<Vec<_>>())),
                "65 paths are shown; expected at most 64",
            ),
            (described(&"d".repeat(257)), "has a description of 257 bytes"),
            (described("two\nlines"), "expected one line"),
        ] {
            assert!(matches!(&found[..], [mistake] if mistake.contains(expected)), "{found:?}: {expected}");
        }
    }
}
