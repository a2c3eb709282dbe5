//! The command line, and the errors for invalid files.
