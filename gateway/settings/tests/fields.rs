//! What is generated from the fields: the tables of the documentation; of the chart the schema of its values and the list of fields
//! that it passes on to the gateway; and what the example does not set. Other tests list the fields, too, so this is a program of
//! its own, which runs while they do not compile.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::{env, fs};

use extender_gateway_settings::shape::{Absent, Field, Shape, Shaped};
use extender_gateway_settings::{BackendSettings, Config};
use serde_json::Value;

/// If it is set, stale files are written.
const RECORD: &str = "EXTENDER_CONFIG_RECORD";
/// The beginning of a generated table, with the mappings whose fields it has, and what follows these. It ends with an empty line.
const TABLE: (&str, &str) = ("<!-- fields of ", ": written by make config-record, not by hand -->\n");
/// The mapping that is the whole file, in the beginning of a table.
const WHOLE_FILE: &str = "the file";
/// The mappings with a table.
const TABLED: [&str; 10] = [
    WHOLE_FILE,
    "backends",
    "backends.match",
    "backends.filter",
    "backends.score",
    "backends.preempt",
    "backends.beforeFilter",
    "backends.beforeFilterNodes",
    "backends.beforeScore",
    "backends.bind",
];

#[test]
fn what_is_generated_from_the_fields_is_fresh() {
    keep_fresh("docs/configuration.md", |text| with_meaning(&with_tables(text)));
    keep_fresh("deploy/chart/values.schema.json", with_definitions);
    keep_fresh("deploy/chart/templates/_config.tpl", with_passed_fields);
    keep_fresh("gateway/examples/gateway.yaml", with_other_fields);
}

fn keep_fresh(path: &str, generate: fn(&str) -> String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let text = fs::read_to_string(&file).unwrap();
    let fresh = generate(&text);
    if env::var_os(RECORD).is_some() {
        return fs::write(file, fresh).unwrap();
    }
    let lines = text.lines().map(Some).chain([None]).zip(fresh.lines().map(Some).chain([None]));
    let different = lines.enumerate().find(|(_, (old, new))| old != new);
    if let Some((at, (old, new))) = different {
        let shown = |line: Option<&str>| line.map_or("the end".to_owned(), |line| format!("`{line}`"));
        let (old, new) = (shown(old), shown(new));
        panic!("{path} is stale, run `make config-record`. Line {} is\n{old}\nand should be\n{new}", at + 1);
    }
}

/// The fields of a type.
fn mapping<T: Shaped>() -> Vec<Field> {
    let (Shape::Mapping(fields) | Shape::List(fields)) = T::shape() else { panic!("no mapping") };
    fields
}

/// The fields, each with its path and followed by those below it.
fn all_below<'f>(prefix: &str, fields: &'f [Field]) -> Vec<(String, &'f Field)> {
    let with_those_below = |field: &'f Field| {
        let path = format!("{prefix}{}", field.name);
        let below = match &field.shape {
            Shape::Value(_) => Vec::new(),
            Shape::Mapping(fields) | Shape::List(fields) => all_below(&format!("{path}."), fields),
        };
        [vec![(path, field)], below].concat()
    };
    fields.iter().flat_map(with_those_below).collect()
}

/// The text of a field on one line.
fn line(field: &Field) -> String {
    field.text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The documentation with a row for each field, in the table of the nearest mapping that has one.
fn with_tables(documentation: &str) -> String {
    let config = mapping::<Config>();
    let all = all_below("", &config);
    let mut parts = documentation.split(TABLE.0);
    let before = parts.next().unwrap_or_default().to_owned();
    let tables: Vec<(Vec<&str>, &str)> = parts.map(mappings_and_rest).collect();
    let mappings: Vec<&str> = tables.iter().flat_map(|(mappings, _)| mappings.clone()).collect();
    for mapping in TABLED {
        assert!(mappings.contains(&mapping), "{}…{mapping}…{} is missing", TABLE.0, TABLE.1.trim_end());
    }
    assert!(mappings.len() == TABLED.len(), "a mapping has two tables, or none that is known: {mappings:?}");
    let of = |path: &str| {
        let contains = |mapping: &&&str| path.starts_with(&format!("{mapping}."));
        *mappings.iter().filter(contains).max_by_key(|mapping| mapping.len()).unwrap_or(&WHOLE_FILE)
    };
    tables.iter().fold(before, |text, (mappings_here, rest)| {
        let is_here = |(path, field): &&(String, &Field)| {
            let has_row = field.absent != Absent::Section || mappings.contains(&path.as_str());
            has_row && mappings_here.contains(&of(path))
        };
        let rows: String = all.iter().filter(is_here).map(|(path, field)| row(path, field)).collect();
        let head = "| field | default | description |\n|---|---|---|\n";
        let here = mappings_here.join(", ");
        [&text, TABLE.0, &here, TABLE.1, head, &rows, "\n", rest].concat()
    })
}

/// The mappings of a table, and what is below it.
fn mappings_and_rest(table: &str) -> (Vec<&str>, &str) {
    let (mappings, rest) = table.split_once(TABLE.1).expect("a table names its mappings");
    let (_, rest) = rest.split_once("\n\n").expect("a table has an end");
    (mappings.split(", ").collect(), rest)
}

fn row(path: &str, field: &Field) -> String {
    let path = path.strip_prefix("backends.").unwrap_or(path);
    let default = match &field.absent {
        Absent::Required | Absent::Section => String::new(),
        Absent::Default(value) => format!("`{value}` "),
        Absent::Instead(words) => format!("{words} "),
    };
    format!("| `{path}` | {default}| {} |\n", line(field))
}

/// The documentation with what its first file means.
fn with_meaning(documentation: &str) -> String {
    const MEANING: &str = "# gateway.yaml is valid. Effective configuration:\n";
    let (before, after) = documentation.split_once(MEANING).expect("the meaning of a file");
    let (_, after) = after.split_once("```").expect("the end of the meaning");
    let (_, file) = before.split_once("```yaml\n").expect("a file");
    let (file, _) = file.split_once("```").expect("the end of the file");
    let meaning =
        Config::parse(file, Path::new("")).unwrap_or_else(|mistakes| panic!("the first file: {mistakes}"));
    let meaning = meaning.effective_yaml();
    [before, MEANING, &meaning, "```", after].concat()
}

/// The schema with a reference to each field of a backend in `policy`, and with `backend` and `config` as its last definitions.
fn with_definitions(schema: &str) -> String {
    let (backend, config) = (mapping::<BackendSettings>(), mapping::<Config>());
    let (before, _) = schema.split_once("\n    \"backend\": ").expect("the definition of a backend");
    let reference = "{\"$ref\": \"#/$defs/backend/properties/";
    let own = before.split_inclusive('\n').filter(|line| !line.contains(reference)).collect::<String>();
    let (before, after) = own.split_once("\n    \"policy\": {").expect("the definition of a policy");
    let (start, after) = after.split_once("\"properties\": {\n").expect("the fields of a policy");
    let fields = backend.iter().map(|field| format!("      \"{0}\": {reference}{0}\"}},\n", field.name));
    let policy =
        [before, "\n    \"policy\": {", start, "\"properties\": {\n", &fields.collect::<String>(), after];
    let definition =
        |name, fields, required| format!("\n    \"{name}\": {}", object(fields, "    ", "", required));
    let backend = definition("backend", &backend, Required::Listed) + ",";
    policy.concat() + &backend + &definition("config", &config, Required::SetByTheChart) + "\n  }\n}\n"
}

/// The fields that a mapping must have.
#[derive(Clone, Copy)]
enum Required {
    Listed,
    /// The chart sets all of them, and its own message says so.
    SetByTheChart,
}

/// The schema of a mapping.
fn object(fields: &[Field], indent: &str, description: &str, required: Required) -> String {
    let below = format!("{indent}  ");
    let properties: Vec<_> = fields.iter().map(|field| property(field, &below, required)).collect();
    let is_required = |field: &&Field| field.absent == Absent::Required;
    let names: Vec<_> = fields.iter().filter(is_required).map(|field| format!("{:?}", field.name)).collect();
    let names = match required {
        Required::Listed if !names.is_empty() => format!("\"required\": [{}], ", names.join(", ")),
        Required::Listed | Required::SetByTheChart => String::new(),
    };
    format!(
        "{{{description}\"type\": \"object\", \"additionalProperties\": false, {names}\"properties\": {{\n{}\n{indent}}}}}",
        properties.join(",\n")
    )
}

fn property(field: &Field, indent: &str, required: Required) -> String {
    let text = Value::String(without_links(line(field)));
    let description = format!("\"description\": {text}, ");
    let schema = match &field.shape {
        Shape::Value(members) => format!("{{{description}{members}}}"),
        Shape::Mapping(fields) => object(fields, indent, &description, required),
        Shape::List(_) if field.name == "backends" => {
            format!("{{{description}\"type\": \"array\", \"items\": {{\"$ref\": \"#/$defs/backend\"}}}}")
        }
        Shape::List(fields) => {
            let items = object(fields, indent, "", required);
            format!("{{{description}\"type\": \"array\", \"items\": {items}}}")
        }
    };
    format!("{indent}\"{}\": {schema}", field.name)
}

/// Markdown without the targets of its links.
fn without_links(mut text: String) -> String {
    while let Some(middle) = text.find("](") {
        let start = text[..middle].rfind('[').expect("a link has a text");
        let end = middle + text[middle..].find(')').expect("a link has an end");
        text = [&text[..start], &text[start + 1..middle], &text[end + 1..]].concat();
    }
    text
}

/// The template with the fields of a backend, which are passed on from an entry of `policies`.
fn with_passed_fields(template: &str) -> String {
    const PICK: &str = "{{- $backend := pick . ";
    let (before, after) = template.split_once(PICK).expect("the fields that are passed on");
    let (_, after) = after.split_once('\n').expect("a line");
    let names: Vec<_> =
        mapping::<BackendSettings>().iter().map(|field| format!("{:?}", field.name)).collect();
    [before, PICK, &names.join(" "), " -}}\n", after].concat()
}

/// The example with the fields that it does not set, as comments.
fn with_other_fields(example: &str) -> String {
    const OTHERS: &str = "# Not set above (written by make config-record):\n";
    let (set, _) = example.split_once(OTHERS).unwrap_or((example, ""));
    let values = serde_saphyr::from_str(set).unwrap();
    let config = mapping::<Config>();
    let is_other = |(path, _): &&(String, &Field)| !has(&values, &path.split('.').collect::<Vec<_>>());
    let comment = |(path, field): &(String, &Field)| format!("# {path}: {}\n", without_links(line(field)));
    let others = all_below("", &config).iter().filter(is_other).map(comment).collect::<String>();
    if others.is_empty() { set.to_owned() } else { [set, OTHERS, &others].concat() }
}

/// Whether a value, or one of its items, has a field.
fn has(value: &Value, path: &[&str]) -> bool {
    match (value, path) {
        (_, []) => true,
        (Value::Array(items), path) => items.iter().any(|item| has(item, path)),
        (value, [name, below @ ..]) => value.get(name).is_some_and(|value| has(value, below)),
    }
}
