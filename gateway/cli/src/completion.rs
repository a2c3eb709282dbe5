//! `completion`: scripts that complete commands and options in a shell.

#[cfg(test)]
mod tests;

use clap::{Args, Command, ValueEnum};
use clap_complete::aot::{self, generate};

use super::output::{Console, Failure};

/// The command's description.
pub(super) const ABOUT: &str = "Print the completion script of a shell.\n\n\
    The script completes commands, options and their values. Load it in the start file of the shell, or write it to the folder \
    that the shell loads completions from.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  source <(extender-gateway completion bash)
  extender-gateway completion bash > /etc/bash_completion.d/extender-gateway
  extender-gateway completion zsh > \"${fpath[1]}/_extender-gateway\"
  extender-gateway completion fish > ~/.config/fish/completions/extender-gateway.fish";

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct CompletionOptions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// The shells that are common on Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script for this command line.
pub(super) fn run(
    options: &CompletionOptions,
    mut command: Command,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let shell = match options.shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    // `generate` panics if it cannot write.
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    generate(shell, &mut command, name, &mut script);
    Ok(console.out.write_all(&script)?)
}
