//! The scripts, and what bash completes with one.

use std::process::Command;

use clap::{CommandFactory, ValueEnum};

use super::*;
use crate::Arguments;

fn script(shell: Shell) -> String {
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let mut console = Console { out: &mut out, notes: &mut notes };
    run(&CompletionOptions { shell }, Arguments::command(), &mut console).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_script_has_every_command() {
    let command = Arguments::command();
    for shell in Shell::value_variants() {
        let script = script(*shell);
        for command in command.get_subcommands() {
            assert!(script.contains(command.get_name()), "{shell:?}: {}", command.get_name());
        }
    }
}

/// What bash does when a user presses Tab after these words: it calls the registered function with the command, the last word
/// and the one before it.
const PRESS_TAB: &str = r#"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
registered=$(complete -p "$1")
registered=${registered#*-F }
"${registered%% *}" "$1" "${!#}" "${COMP_WORDS[COMP_CWORD-1]}"
echo "${COMPREPLY[@]}"
"#;

/// What bash offers for the last of these words.
fn completed(words: &[&str]) -> Vec<String> {
    let script = ["set -e\n", &script(Shell::Bash), PRESS_TAB].concat();
    let output = Command::new("bash").args(["-c", &script, "bash"]).args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    assert_eq!(completed(&["extender-gateway", "s"]), ["serve", "scheduler-config", "status"]);
    assert_eq!(completed(&["extender-gateway", "status", "--w"]), ["--watch", "--waiting"]);
    assert_eq!(completed(&["extender-gateway", "status", "--output", ""]), ["table", "wide", "json", "yaml"]);
    assert_eq!(completed(&["extender-gateway", "completion", "z"]), ["zsh"]);
}
