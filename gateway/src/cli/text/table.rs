//! Tables with columns as wide as their content.

use std::fmt;

use unicode_width::UnicodeWidthStr;

use super::clean;

/// The space between two columns.
const GAP: &str = "  ";

/// One column: its title and the alignment of its cells.
#[derive(Debug, Clone)]
pub(in crate::cli) enum TextColumn {
    /// Texts.
    Left(String),
    /// Numbers.
    Right(String),
}

/// A table with a header line. A line ends with its last non-empty cell.
#[derive(Debug)]
pub(in crate::cli) struct Table {
    columns: Vec<TextColumn>,
    rows: Vec<Vec<String>>,
}

impl TextColumn {
    /// A column of texts.
    pub(in crate::cli) fn left(title: &str) -> Self {
        Self::Left(clean(title).into_owned())
    }

    /// A column of numbers.
    pub(in crate::cli) fn right(title: &str) -> Self {
        Self::Right(clean(title).into_owned())
    }

    fn title(&self) -> &str {
        match self {
            Self::Left(title) | Self::Right(title) => title,
        }
    }

    fn pad(&self, out: &mut impl fmt::Write, cell: &str, width: usize) -> fmt::Result {
        // Not a width in the format string, which is limited to 16 bits.
        let space = " ".repeat(width.saturating_sub(cell.width()));
        match self {
            Self::Left(_) => write!(out, "{cell}{space}"),
            Self::Right(_) => write!(out, "{space}{cell}"),
        }
    }
}

impl Table {
    /// A table without rows.
    pub(in crate::cli) fn new(columns: Vec<TextColumn>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row; cells beyond the last column are dropped.
    pub(in crate::cli) fn row<Cell: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells = cells.into_iter().take(self.columns.len());
        self.rows.push(cells.map(|cell| clean(cell.as_ref()).into_owned()).collect());
    }

    fn width(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.width());
        cells.chain([self.columns[at].title().width()]).max().unwrap_or_default()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.columns.len()).map(|at| self.width(at)).collect();
        let titles: Vec<String> = self.columns.iter().map(|column| column.title().to_owned()).collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            let mut line = String::new();
            for ((at, column), cell) in self.columns.iter().enumerate().zip(row) {
                line.push_str(if at == 0 { "" } else { GAP });
                column.pad(&mut line, cell, widths[at])?;
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table =
            Table::new(vec![TextColumn::left("NODE"), TextColumn::right("TOTAL"), TextColumn::left("WHY")]);
        table.row(["a", "7", ""]);
        table.row(["節点-2", "1,234,567", "so\n", "beyond"]);
        table.row(["short"]);
        let expected = "\
NODE        TOTAL  WHY
a               7
節点-2  1,234,567  so\\u{a}
short
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn a_column_may_be_as_wide_as_it_likes() {
        let mut table = Table::new(vec![TextColumn::left("SAID"), TextColumn::right("N")]);
        table.row(["x".repeat(70_000), "1".to_owned()]);
        assert_eq!(table.to_string().lines().map(str::len).collect::<Vec<_>>(), [70_003; 2]);
    }
}
