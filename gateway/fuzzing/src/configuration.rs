//! Configuration files: the gateway's own, and kube-scheduler's, whose extenders can be imported.

use std::{collections::BTreeSet, path::Path};

use extender_config::ConfigErrors;
use extender_gateway_scheduler_config::{Address, Import};
use extender_gateway_settings::Config;

/// The longest text of one mistake, in bytes: it echoes at most 80 characters of a value, and as many of each key of its
/// path.
const LONGEST_MISTAKE: usize = 4 << 10;

/// A text is refused with places, or what is printed of it is the same configuration.
pub fn gateway(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let config = match Config::parse(text, Path::new("")) {
        Ok(config) => config,
        Err(errors) => return explained(&errors, text),
    };
    let printed = config.effective_yaml();
    let again = Config::parse(&printed, Path::new(""));
    let again = again.unwrap_or_else(|errors| panic!("{errors}\n{printed}"));
    assert_eq!(again, reordered(&config), "{printed}");
    assert_eq!(again.effective_yaml(), printed);
    assert_eq!(again.summary().digest, config.summary().digest);
    assert!(again.fixed_since_the_start(&config).is_empty());
    assert!(config.warnings(&BTreeSet::new()).iter().all(|warning| !warning.is_empty()));
}

/// Printed with the backends in their effective order.
fn reordered(config: &Config) -> Config {
    let order = config.effective_order();
    let backends = order.iter().map(|position| config.backends[*position].clone()).collect();
    let mut changed = config.without_backends();
    changed.backends = backends;
    changed
}

/// A text is refused with places, or the configuration that is made of it is valid apart from what the notes name.
pub fn scheduler(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match Import::parse(text) {
        Ok(import) => {
            let yaml = import.gateway("http://127.0.0.1:9000", Address::Local).to_string();
            if let Err(errors) = Config::parse(&yaml, Path::new("")) {
                panic!("{errors}\n{yaml}");
            }
            assert!(import.notes().iter().all(|note| !note.is_empty()));
        }
        Err(errors) => explained(&errors, text),
    }
}

/// There is at least one mistake, each is a bounded text on one line with a line of the text, and they are sorted.
fn explained(errors: &ConfigErrors, text: &str) {
    assert!(!errors.mistakes().is_empty());
    let lines: Vec<_> = errors.mistakes().iter().map(extender_config::Mistake::line).collect();
    assert!(lines.is_sorted(), "{errors}");
    // In YAML a carriage return alone ends a line.
    let last = text.split(['\n', '\r']).count() as u64 + 1;
    for (mistake, line) in errors.mistakes().iter().zip(lines) {
        assert!(line.is_none_or(|line| (1..=last).contains(&line)), "{mistake} of {last} lines");
        let sentence = mistake.sentence();
        assert!(sentence.len() <= LONGEST_MISTAKE, "{} bytes", sentence.len());
        assert!(!sentence.contains(['\n', '\r']), "{sentence:?}");
        let (wrong, remedy) = sentence.rsplit_once("; ").unwrap_or_default();
        assert!(!wrong.is_empty() && !remedy.is_empty(), "{sentence:?}");
    }
}
