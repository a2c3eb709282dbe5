//! Follows the rule file while the policy runs.

use std::{convert::Infallible, path::PathBuf, time::Duration};

use extender_config::{ConfigErrors, Content};
use extender_files::Follower;
use extender_policy_sdk::Replace;

use super::{LabelRules, Rules, file};

/// How often the file is read: as often as the gateway asks for the revision.
const PERIOD: Duration = Duration::from_secs(1);

/// A rule file and its content at the start.
#[derive(Debug)]
pub struct RuleFile {
    path: PathBuf,
    content: Content,
    /// The rules in use.
    used: Rules,
}

impl RuleFile {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// The file cannot be read or has mistakes: there are no older rules to keep.
    pub fn open(path: PathBuf) -> Result<(Self, Rules), ConfigErrors> {
        let content = Content::read(&path)?;
        let rules = rules(&content).map_err(|errors| errors.in_file(&path))?;
        Ok((Self { path, content, used: rules.clone() }, rules))
    }

    /// Follows the file and serves new rules under `name`.
    pub async fn follow(mut self, name: &str, replace: &Replace) -> Infallible {
        let path = self.path.clone();
        let mut follower = Follower::new(Ok(self.content.clone()), PERIOD, move || Content::read(&path));
        loop {
            self.look(follower.changed().await, name, replace);
        }
    }

    /// Applies the current content of the file. With a mistake the old rules stay.
    fn look(&mut self, content: Result<Content, ConfigErrors>, name: &str, replace: &Replace) {
        let file = self.path.display().to_string();
        match content.and_then(|content| rules(&content)) {
            Err(errors) => self.reject(&errors.on_one_line(), name, replace),
            Ok(rules) => match replace.with(LabelRules::new(name, rules.clone())) {
                Ok(()) => {
                    self.used = rules;
                    tracing::info!(%file, "rules reloaded");
                }
                Err(error) => self.reject(&error.to_string(), name, replace),
            },
        }
    }

    /// The rules in use stay, and the handshake says why.
    fn reject(&self, why: &str, name: &str, replace: &Replace) {
        let file = self.path.display();
        tracing::error!(%file, "rule change rejected, the previous rules stay in use: {why}");
        let rejecting = LabelRules::new(name, self.used.clone()).rejecting(format!("{file}: {why}"));
        if let Err(error) = replace.with(rejecting) {
            tracing::error!(%file, "the rejection cannot be reported: {error}");
        }
    }
}

fn rules(content: &Content) -> Result<Rules, ConfigErrors> {
    content.text().map_err(ConfigErrors::one).and_then(file::read)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use extender_policy_sdk::{Backend, testing};

    use super::*;

    const OLD: &str = "rules: [{prefer: [{key: a, equals: b}], score: 1}]";
    const NEW: &str = "rules: [{prefer: [{key: a, equals: b}], score: 2}]";

    fn open(text: &str) -> Result<(RuleFile, Backend, Replace), ConfigErrors> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let (file, rules) = RuleFile::open(file.path().to_owned())?;
        let (backend, replace) = Backend::replaceable(LabelRules::new("rules", rules)).unwrap();
        Ok((file, backend, replace))
    }

    fn content(text: &str) -> Result<Content, ConfigErrors> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Content::read(file.path())
    }

    fn largest(backend: &Backend) -> Option<i32> {
        testing::info(backend.clone()).unwrap().verbs[1].score_max
    }

    #[test]
    fn new_rules_are_put_into_service_and_broken_ones_are_not() {
        let (mut file, backend, replace) = open(OLD).unwrap();
        let rejected = || testing::info(backend.clone()).unwrap().rejected_configuration;
        let missing = || Content::read("no/such/file".as_ref());
        for (now, expected, why) in [
            (content(OLD), 1, ""),
            (content("rules: ["), 1, ": line 1"),
            (missing(), 1, ": cannot be read"),
            (content(NEW), 2, ""),
            (content("rules: [{}]"), 2, "rules[0]"),
            (content(OLD), 1, ""),
        ] {
            let context = format!("{now:?}");
            file.look(now, "rules", &replace);
            assert_eq!(largest(&backend), Some(expected), "{context}");
            assert!(
                rejected().contains(why) && rejected().is_empty() == why.is_empty(),
                "{context}: {}",
                rejected()
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_file_is_read_again_while_running() {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(OLD.as_bytes()).unwrap();
        let (file, rules) = RuleFile::open(on_disk.path().to_owned()).unwrap();
        let (backend, replace) = Backend::replaceable(LabelRules::new("rules", rules)).unwrap();
        std::fs::write(on_disk.path(), NEW).unwrap();
        let changed = async {
            while largest(&backend) != Some(2) {
                // The clock is paused, and advances while nothing else can run.
                tokio::time::sleep(PERIOD).await;
            }
        };
        tokio::select! {
            never = file.follow("rules", &replace) => match never {},
            () = changed => {}
        }
    }

    #[test]
    fn a_start_without_rules_names_the_file() {
        let error = open("rules: [{}]").err().unwrap().to_string();
        assert!(error.contains(" line 1: rules[0]: has no require"), "{error}");
        let error = RuleFile::open("no/such/file.yaml".into()).err().unwrap().to_string();
        assert!(error.starts_with("no/such/file.yaml: "), "{error}");
    }
}
