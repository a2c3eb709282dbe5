//! Finds the configuration of kube-scheduler in a file as people have it: alone, among other documents, in a list or a
//! `ConfigMap`, or as a policy file without a kind.

use extender_config::{ConfigErrors, Cursor, Mistakes, Node, Place, Remedy, Value, echo, parse_all};

const FORM: &str = "a KubeSchedulerConfiguration of kubescheduler.config.k8s.io, v1 or v1beta1 to v1beta3, a Policy, v1, or a \
                    ConfigMap with one of them";
/// The fields that tell a `Policy` from other objects if it has no kind.
const OF_A_POLICY: [&str; 3] = ["extenders", "predicates", "priorities"];
/// How deep lists of objects are nested at most.
const DEEPEST: usize = 3;

/// A configuration of kube-scheduler, or another document where one is expected.
pub(super) struct Found {
    pub(super) document: Node,
    /// `None`: a document of the file itself.
    inside: Option<Inside>,
}

/// Which value of a `ConfigMap` has the document.
#[derive(Clone)]
struct Inside {
    /// Such as `data["config.yaml"]`.
    path: String,
    /// The line of the file on which the value begins.
    line: u64,
    /// Whether the lines that follow are those of the value.
    is_block: bool,
    /// The last line of the file.
    last: u64,
}

/// The only configuration with extenders, or else the only configuration.
///
/// # Errors
/// The text is not YAML, or has no configuration, or several.
pub(super) fn find(text: &str) -> Result<Found, ConfigErrors> {
    let mut search = Search { lines: text.lines().collect(), found: Vec::new(), other: None };
    for document in parse_all(text).map_err(ConfigErrors::one)? {
        search.visit(document, DEEPEST)?;
    }
    let Search { mut found, other, .. } = search;
    let has_extenders = |found: &Found| field(&found.document, "extenders").is_some();
    if found.iter().any(has_extenders) {
        found.retain(has_extenders);
    }
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(second)) => second.check(|root| {
            root.mistake("is a second configuration of kube-scheduler", Remedy::Do("keep one of them"));
            None
        }),
        (None, _) => {
            let nothing = || Node { place: Place { line: 1, column: 1 }, value: Value::Null };
            let other = Found { document: other.unwrap_or_else(nothing), inside: None };
            other.check(|root| {
                wrong_form(root);
                None
            })
        }
    }
}

/// A mistake: the document has another kind or version.
pub(super) fn wrong_form(root: &Cursor<'_>) {
    let shown = |field: &str| {
        let text = root.descend(&[field]).and_then(|field| field.text_if_any());
        text.map_or_else(|| "none".to_owned(), echo)
    };
    root.mistake(format!("has kind {} and apiVersion {}", shown("kind"), shown("apiVersion")), FORM);
}

impl Found {
    /// Reads the document.
    ///
    /// # Errors
    /// The mistakes that `read` records, with their places in the file.
    pub(super) fn check<T>(&self, read: impl FnOnce(&Cursor<'_>) -> Option<T>) -> Result<T, ConfigErrors> {
        let mistakes = Mistakes::default();
        let read = mistakes.settle(read(&Cursor::root(&self.document, &mistakes)));
        read.map_err(|errors| self.inside.iter().fold(errors, |errors, inside| inside.place(errors)))
    }
}

impl Inside {
    fn place(&self, errors: ConfigErrors) -> ConfigErrors {
        errors.below(&self.path, |line| (self.line + if self.is_block { line } else { 0 }).min(self.last))
    }
}

struct Search<'t> {
    lines: Vec<&'t str>,
    found: Vec<Found>,
    /// The first document that is no configuration and has none.
    other: Option<Node>,
}

impl Search<'_> {
    fn visit(&mut self, document: Node, deepest: usize) -> Result<(), ConfigErrors> {
        let kind = text(&document, "kind").unwrap_or_default();
        if matches!(document.value, Value::Null) {
            return Ok(());
        }
        if is_configuration(&document) {
            self.found.push(Found { document, inside: None });
            return Ok(());
        }
        if kind.ends_with("List") && deepest > 0 {
            return items(document).into_iter().try_for_each(|item| self.visit(item, deepest - 1));
        }
        let before = self.found.len();
        if kind == "ConfigMap" {
            self.open(&document)?;
        }
        if self.found.len() == before {
            self.other.get_or_insert(document);
        }
        Ok(())
    }

    /// Looks into the values of a `ConfigMap`.
    fn open(&mut self, map: &Node) -> Result<(), ConfigErrors> {
        let Some(Value::Mapping(pairs)) = field(map, "data").map(|data| &data.value) else { return Ok(()) };
        for (key, value) in pairs {
            let (Value::Text(key), Value::Text(content)) = (&key.value, &value.value) else { continue };
            let inside = self.inside(key, value.place);
            match parse_all(content) {
                Ok(documents) => {
                    let documents = documents.into_iter().filter(is_configuration);
                    let inside = Some(inside);
                    self.found.extend(documents.map(|document| Found { document, inside: inside.clone() }));
                }
                Err(mistake) if content.contains("extenders") => {
                    return Err(inside.place(ConfigErrors::one(mistake)));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn inside(&self, key: &str, Place { line, .. }: Place) -> Inside {
        let opens_block = |line: u64| {
            let line = usize::try_from(line).ok().and_then(|line| self.lines.get(line.checked_sub(1)?));
            line.is_some_and(|line| line.trim_end().trim_end_matches(['-', '+']).ends_with('|'))
        };
        // The place is that of the indicator, or of the first line after it.
        let before = line.saturating_sub(1);
        let line = if !opens_block(line) && opens_block(before) { before } else { line };
        let last = self.lines.len().max(1) as u64;
        Inside { path: format!("data[{}]", echo(key)), line, is_block: opens_block(line), last }
    }
}

fn is_configuration(document: &Node) -> bool {
    match text(document, "kind") {
        Some(kind) => matches!(kind, "KubeSchedulerConfiguration" | "Policy"),
        None => OF_A_POLICY.iter().any(|name| field(document, name).is_some()),
    }
}

/// The items of a list of objects.
fn items(list: Node) -> Vec<Node> {
    let Value::Mapping(pairs) = list.value else { return Vec::new() };
    let is_items = |(key, _): &(Node, Node)| matches!(&key.value, Value::Text(name) if name == "items");
    match pairs.into_iter().find(is_items).map(|(_, items)| items.value) {
        Some(Value::List(items)) => items,
        _ => Vec::new(),
    }
}

fn field<'n>(document: &'n Node, name: &str) -> Option<&'n Node> {
    let Value::Mapping(pairs) = &document.value else { return None };
    let named = |(key, _): &&(Node, Node)| matches!(&key.value, Value::Text(text) if text == name);
    pairs.iter().find(named).map(|(_, value)| value)
}

fn text<'n>(document: &'n Node, name: &str) -> Option<&'n str> {
    match &field(document, name)?.value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}
