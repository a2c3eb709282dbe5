//! Single values of the configuration: URLs, durations, sizes, names. The first byte selects the kind.

use std::time::Duration;

use extender_config::{Cursor, Mistakes, names, parse};
use extender_gateway_object::quantity::Quantity;
use extender_gateway_settings::{
    BackendName, BackendUrl, DurationText, SizeText, parse_duration, parse_long_duration, scalar,
};

/// The longest text of an error, in bytes: 80 characters of a value, escaped, and some words.
const LONGEST_ERROR: usize = 1200;
const DAY: Duration = Duration::from_hours(24);

/// A value is refused with a sentence, or is written as it is read.
pub fn setting(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let Ok(text) = str::from_utf8(rest) else { return };
    match kind % 8 {
        0 => url(text),
        1 => duration(text),
        2 => size(text),
        3 => name(text, names::label_key, 253 + 1 + 63),
        4 => name(text, names::label_value, 63),
        5 => name(text, names::namespace, 63),
        6 => name(text, names::extended_resource, 253 + 1 + 63),
        _ => in_yaml(text),
    }
    if let Err(wrong) = BackendName::new(text) {
        explained(&wrong);
    }
}

fn url(text: &str) {
    match BackendUrl::new(text) {
        Ok(url) => {
            let written = url.to_string();
            assert_eq!(BackendUrl::new(&written).as_ref(), Ok(&url), "{written}");
            let uri: http::Uri = written.parse().unwrap_or_else(|error| panic!("{written}: {error}"));
            assert_eq!(uri.port_u16(), Some(url.port()), "{written}");
            assert_eq!(uri.host().map(|host| host.trim_matches(['[', ']'])), Some(url.host()), "{written}");
        }
        Err(wrong) => explained(&wrong),
    }
}

fn duration(text: &str) {
    match parse_duration(text) {
        Ok(duration) => {
            assert!(duration >= Duration::from_millis(1) && duration <= Duration::from_hours(1));
            assert_eq!(parse_duration(&DurationText(duration).to_string()), Ok(duration));
            assert_eq!(parse_long_duration(text, DAY), Ok(duration));
        }
        Err(wrong) => explained(&wrong),
    }
}

/// A size in bytes is written with a suffix that loses nothing.
fn size(text: &str) {
    let Ok(quantity) = Quantity::parse(text) else { return };
    if let Ok(bytes) = usize::try_from(quantity.value()) {
        let written = SizeText(bytes).to_string();
        assert_eq!(Quantity::parse(&written).map(Quantity::value), Ok(quantity.value()), "{written}");
    }
}

fn name(text: &str, read: fn(&str) -> Result<String, String>, most: usize) {
    match read(text) {
        Ok(name) => {
            assert!(name == text && name.len() <= most && name.is_ascii());
            in_yaml(&name);
        }
        Err(wrong) => explained(&wrong),
    }
}

/// A text is the same after it was written as a YAML scalar.
fn in_yaml(text: &str) {
    let written = format!("- {}\n", scalar(&text));
    let Ok(document) = parse(&written) else { panic!("not YAML: {written:?}") };
    let mistakes = Mistakes::default();
    let items = Cursor::root(&document, &mistakes).items("a list").unwrap_or_default();
    assert_eq!(items.first().and_then(Cursor::text_if_any), Some(text), "{written:?}");
}

fn explained(wrong: &str) {
    assert!(!wrong.is_empty() && wrong.len() <= LONGEST_ERROR, "{} bytes", wrong.len());
    assert!(!wrong.contains(['\n', '\r', '\0']), "{wrong:?}");
}
