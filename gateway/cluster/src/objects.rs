//! Kubernetes objects in a file: alone or in lists, as JSON or YAML, in one or more documents.

use std::{io, path::Path};

use extender_config::echo;
use extender_files::read_regular_file;
use extender_gateway_object::text::clean;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use serde_saphyr::{Options, RenderOptions, SnippetMode, UserMessageFormatter};

/// The deepest nesting of a YAML document. A node's managed fields take about 10 levels. The parser is recursive; this
/// many levels fit the stack of any thread.
const DEEPEST: usize = 24;

/// The largest file in bytes: enough for more than 100,000 nodes.
const LARGEST: u64 = 2 << 30;

/// Why a text has no objects.
#[derive(Debug, thiserror::Error)]
pub enum SyntaxError {
    /// It begins like JSON but is not JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is not YAML.
    #[error("not YAML: {0}")]
    Yaml(String),
    /// A document or an item of a list is something else.
    #[error("{0} is not an object")]
    NoObject(String),
}

/// An object of a file.
#[derive(Debug)]
pub struct FileObject<'a> {
    /// Its number, counted from 1 through all lists and documents.
    pub number: usize,
    /// Its kind, or that of its list; `None` if neither has one.
    pub kind: Option<String>,
    /// The object.
    pub json: &'a RawValue,
}

impl FileObject<'_> {
    /// The object in messages, such as `object 3 (Node worker-1)`.
    pub fn place(&self, kind: &str) -> String {
        #[derive(Deserialize)]
        struct Named {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            name: String,
        }
        let number = self.number;
        let name = serde_json::from_str(self.json.get()).ok().map(|named: Named| named.metadata.name);
        match name.filter(|name| !name.is_empty()) {
            Some(name) => format!("object {number} ({kind} {})", clean(&name)),
            None => format!("object {number}"),
        }
    }
}

/// The fields that distinguish an object from a list.
#[derive(Deserialize)]
struct DocumentHead<'a> {
    kind: Option<String>,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

/// The text of a file.
///
/// # Errors
/// It cannot be read, is larger than 2 GiB or not UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    let bytes = read_regular_file(path, LARGEST + 1)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it has more than 2 GiB"));
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(io::Error::other("it is UTF-16; save it as UTF-8"));
    }
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Passes each object of a text to `add`, and returns their number.
///
/// # Errors
/// The text is neither JSON nor YAML, or `add` has failed.
pub fn for_each<E: From<SyntaxError>>(
    text: &str,
    add: impl FnMut(FileObject<'_>) -> Result<(), E>,
) -> Result<usize, E> {
    let mut reader = Reader { add, count: 0 };
    if text.trim_start().starts_with(['{', '[']) {
        for document in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
            reader.read_document(document.map_err(SyntaxError::Json)?)?;
        }
    } else {
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, yaml_options(text.len()))
            .map_err(|error| SyntaxError::Yaml(message(&error)))?;
        for document in documents {
            reader.read_document(&serde_json::value::to_raw_value(&document).map_err(SyntaxError::Json)?)?;
        }
    }
    Ok(reader.count)
}

/// Whether a text has a document, such as a list without items: more than white space and comments.
pub fn has_documents(text: &str) -> bool {
    let is_nothing = |line: &str| line.is_empty() || line.starts_with('#') || line == "---";
    !text.lines().all(|line| is_nothing(line.trim()))
}

/// The parser's message for people. Its other one is for users of its library.
fn message(error: &serde_saphyr::Error) -> String {
    let mut rendering = RenderOptions::new(&UserMessageFormatter);
    rendering.snippets = SnippetMode::Off;
    error.render_with_options(rendering)
}

/// The most bytes that the aliases of a text may stand for. Aliases are for files that people write; kubectl writes none.
const MOST_ALIASED: usize = 64 << 20;

/// Limits for a text of this many bytes: for millions of values, as in 5,000 nodes, while the defaults are for configuration
/// files. An alias stands for at most the whole text, and so does each value that it repeats.
fn yaml_options(bytes: usize) -> Options {
    let most_aliased = MOST_ALIASED / bytes.max(1);
    serde_saphyr::options! {
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: most_aliased },
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            max_aliases: most_aliased,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
        strict_booleans: true,
        with_snippet: false,
    }
}

struct Reader<A> {
    add: A,
    /// The number of objects so far.
    count: usize,
}

impl<E: From<SyntaxError>, A: FnMut(FileObject<'_>) -> Result<(), E>> Reader<A> {
    fn read_document(&mut self, document: &RawValue) -> Result<(), E> {
        if document.get().starts_with('[') {
            let objects: Vec<&RawValue> = serde_json::from_str(document.get()).map_err(SyntaxError::Json)?;
            return objects.into_iter().try_for_each(|object| self.read_object(object, None));
        }
        let DocumentHead { kind, items } = head(document)?;
        match (kind.as_deref().and_then(|kind| kind.strip_suffix("List")), items) {
            // The items of a typed list, such as a NodeList, have no kind.
            (Some(of), items) => {
                let of = Some(of).filter(|of| !of.is_empty());
                items.into_iter().flatten().try_for_each(|object| self.read_object(object, of))
            }
            (None, _) => self.read_object(document, None),
        }
    }

    fn read_object(&mut self, json: &RawValue, of_list: Option<&str>) -> Result<(), E> {
        self.count += 1;
        let kind = head(json)?.kind.or_else(|| of_list.map(str::to_owned));
        (self.add)(FileObject { number: self.count, kind, json })
    }
}

fn head(object: &RawValue) -> Result<DocumentHead<'_>, SyntaxError> {
    if !object.get().starts_with('{') {
        return Err(SyntaxError::NoObject(echo(object.get())));
    }
    Ok(serde_json::from_str(object.get())?)
}
