//! Tables with columns as wide as their content.

use std::{
    fmt::{self, Write},
    ops::Range,
};

use unicode_width::UnicodeWidthStr;

use super::clean;

/// A table with a header line. A line ends with its last non-empty cell.
#[derive(Debug)]
pub struct Table {
    /// The titles, then the rows.
    lines: Vec<Vec<String>>,
    /// The columns that are aligned right.
    numbers: Range<usize>,
}

impl Table {
    /// A table without rows. The columns in `numbers` are aligned right, the others left.
    pub fn new<Title: AsRef<str>>(titles: impl IntoIterator<Item = Title>, numbers: Range<usize>) -> Self {
        let titles = titles.into_iter().map(|title| clean(title.as_ref()).into_owned()).collect();
        Self { lines: vec![titles], numbers }
    }

    /// Adds a row; cells beyond the last column are dropped.
    pub fn row<Cell: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells = cells.into_iter().take(self.lines[0].len());
        self.lines.push(cells.map(|cell| clean(cell.as_ref()).into_owned()).collect());
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.lines.len() == 1
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.width()).max().unwrap_or_default()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.lines[0].len()).map(|column| self.width(column)).collect();
        for cells in &self.lines {
            let mut line = String::new();
            for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                // Not a width in the format string, which is limited to 16 bits.
                let padding = " ".repeat(width.saturating_sub(cell.width()));
                if self.numbers.contains(&column) {
                    write!(line, "{gap}{padding}{cell}")?;
                } else {
                    write!(line, "{gap}{cell}{padding}")?;
                }
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
        let mut table = Table::new(["NODE", "TOTAL", "WHY"], 1..2);
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
        let mut table = Table::new(["SAID", "N"], 1..2);
        table.row(["x".repeat(70_000), "1".to_owned()]);
        assert_eq!(table.to_string().lines().map(str::len).collect::<Vec<_>>(), [70_003; 2]);
    }
}
