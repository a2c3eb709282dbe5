//! Colors, if standard output is a terminal.

use std::{
    env,
    io::{self, IsTerminal},
};

/// Whether text is coloured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Colours {
    /// With the escapes that terminals understand.
    Shown,
    /// Plain text, for files and pipes.
    Plain,
}

impl Colours {
    /// As suits standard output; `NO_COLOR` turns them off.
    pub(crate) fn of_stdout() -> Self {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        if wanted && io::stdout().is_terminal() { Self::Shown } else { Self::Plain }
    }

    /// For successes.
    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// For refusals and errors.
    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// For headings.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// For details.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::Shown => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.to_owned(),
        }
    }
}
