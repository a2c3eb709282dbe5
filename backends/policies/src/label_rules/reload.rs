//! Follows the rule file while running.
//!
//! The file is read again each second rather than watched: a `ConfigMap` changes by swapping a symbolic link
//! two folders up, and reading some kilobytes costs less than being right about that.

use std::{fs, io, path::PathBuf, time::Duration};

use extender_policy_sdk::Replace;

use super::{LabelRules, file};

/// As often as the gateway asks for the revision.
const PERIOD: Duration = Duration::from_secs(1);

/// A rule file, and what was last read from it.
#[derive(Debug)]
pub struct RuleFile {
    path: PathBuf,
    seen: Seen,
}

/// What the last look found; a fault is said once, not each second.
#[derive(Debug, PartialEq)]
enum Seen {
    Text(String),
    Fault(String),
}

/// Why the rules at start are no good.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Unreadable {
        /// Of the file.
        path: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The file has mistakes.
    #[error("{path} has mistakes:\n{mistakes}")]
    Mistakes {
        /// Of the file.
        path: String,
        /// All of them.
        mistakes: file::Mistakes,
    },
}

impl RuleFile {
    /// Reads the file for the first time.
    ///
    /// # Errors
    ///
    /// [`RulesError`]: there are no older rules to keep.
    pub fn open(path: PathBuf) -> Result<(Self, super::Rules), RulesError> {
        let name = || path.display().to_string();
        let text =
            fs::read_to_string(&path).map_err(|source| RulesError::Unreadable { path: name(), source })?;
        let rules = file::read(&text).map_err(|mistakes| RulesError::Mistakes { path: name(), mistakes })?;
        Ok((Self { path, seen: Seen::Text(text) }, rules))
    }

    /// Looks each second and puts new rules into service under `name`. Ends only with an error: when the
    /// runtime reads no files any more.
    pub async fn follow(mut self, name: &str, replace: &Replace) -> io::Error {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let path = self.path.clone();
            // On another thread: a slow disk must not hold up calls.
            match tokio::task::spawn_blocking(|| fs::read_to_string(path)).await {
                Ok(text) => self.look(text, name, replace),
                Err(ended) => return ended.into(),
            }
        }
    }

    /// Takes in what the file holds now. With a mistake the old rules stay.
    fn look(&mut self, text: io::Result<String>, name: &str, replace: &Replace) {
        let seen = text.map_or_else(|error| Seen::Fault(error.to_string()), Seen::Text);
        if seen == self.seen {
            return;
        }
        let file = self.path.display();
        match put_into_service(&seen, name, replace) {
            Ok(()) => tracing::info!(%file, "the rules have changed"),
            Err(fault) => tracing::error!(%file, "the rules stay as they were: {fault}"),
        }
        self.seen = seen;
    }
}

fn put_into_service(seen: &Seen, name: &str, replace: &Replace) -> Result<(), String> {
    let text = match seen {
        Seen::Text(text) => text,
        Seen::Fault(fault) => return Err(fault.clone()),
    };
    let rules = file::read(text).map_err(|mistakes| mistakes.lines().join("; "))?;
    replace.with(LabelRules::new(name, rules)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use extender_policy_sdk::{Backend, testing};

    use super::*;

    const OLD: &str = "rules: [{prefer: [{key: a, equals: b}], score: 1}]";
    const NEW: &str = "rules: [{prefer: [{key: a, equals: b}], score: 2}]";

    fn open(text: &str) -> Result<(RuleFile, Backend, Replace), RulesError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let (file, rules) = RuleFile::open(file.path().to_owned())?;
        let (backend, replace) = Backend::replaceable(LabelRules::new("rules", rules)).unwrap();
        Ok((file, backend, replace))
    }

    fn largest(backend: &Backend) -> Option<i32> {
        testing::info(backend.clone()).unwrap().verbs[1].score_max
    }

    #[test]
    fn new_rules_are_put_into_service_and_broken_ones_are_not() {
        let (mut file, backend, replace) = open(OLD).unwrap();
        let missing = || Err(io::Error::from(io::ErrorKind::NotFound));
        for (text, expected) in [
            (Ok(OLD), 1),
            (Ok("rules: ["), 1),
            (missing(), 1),
            (Ok(NEW), 2),
            (Ok("rules: [{}]"), 2),
            (Ok(OLD), 1),
        ] {
            let context = format!("{text:?}");
            file.look(text.map(str::to_owned), "rules", &replace);
            assert_eq!(largest(&backend), Some(expected), "{context}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_file_is_read_again_while_running() {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(OLD.as_bytes()).unwrap();
        let (file, rules) = RuleFile::open(on_disk.path().to_owned()).unwrap();
        let (backend, replace) = Backend::replaceable(LabelRules::new("rules", rules)).unwrap();
        fs::write(on_disk.path(), NEW).unwrap();
        let changed = async {
            while largest(&backend) != Some(2) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            ended = file.follow("rules", &replace) => panic!("{ended}"),
            () = changed => {}
        }
    }

    #[test]
    fn a_start_without_rules_names_the_file() {
        let error = open("rules: [{}]").err().unwrap().to_string();
        assert!(error.contains(" has mistakes:\nrules[0]"), "{error}");
        let error = RuleFile::open("no/such/file.yaml".into()).err().unwrap().to_string();
        assert!(error.starts_with("no/such/file.yaml: "), "{error}");
    }
}
