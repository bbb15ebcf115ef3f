//! Tables without lines: fitted to the width of a terminal, and complete in files and pipes.

use super::{Paint, Tone, line};
use comfy_table::{Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Width};
use std::io::IsTerminal;

/// The minimum width of a table.
const MIN_WIDTH: u16 = 40;

/// Columns that are never truncated: half of an id or a time is of no use.
const WHOLE: [&str; 3] = ["ID", "ROW", "TIME"];

/// A cell: sanitised text with an optional tone.
#[derive(Debug, Clone)]
pub struct TableCell {
    text: String,
    tone: Option<Tone>,
}

impl TableCell {
    /// A cell in a tone.
    pub fn toned(text: &str, tone: Tone) -> Self {
        Self { text: line(text), tone: Some(tone) }
    }
}

impl<T: AsRef<str>> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self { text: line(text.as_ref()), tone: None }
    }
}

/// A table with a header.
#[derive(Debug)]
pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<TableCell>>,
    numbers: Vec<usize>,
    wrap: bool,
}

impl Table {
    /// A table without rows.
    pub fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new(), numbers: Vec::new(), wrap: false }
    }

    /// Aligns a column of numbers to the right.
    #[must_use]
    pub fn numbers(mut self, column: usize) -> Self {
        self.numbers.push(column);
        self
    }

    /// Wraps long texts instead of truncating them.
    #[must_use]
    pub fn wrapping(mut self) -> Self {
        self.wrap = true;
        self
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [TableCell; N]) {
        self.rows.push(cells.into());
    }

    /// Draws the table for standard output.
    pub fn draw(self, paint: Paint) -> String {
        self.draw_at(width(), paint)
    }

    fn draw_at(self, width: Option<u16>, paint: Paint) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING).force_no_tty().set_truncation_indicator("…");
        if paint == Paint::Always {
            table.enforce_styling();
            table.style_text_only();
        }
        match width {
            Some(width) => {
                table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.max(MIN_WIDTH));
            }
            None => drop(table.set_content_arrangement(ContentArrangement::Disabled)),
        }
        if !self.wrap {
            // Without a delimiter, a truncated text fills its column.
            table.set_delimiter('\0');
        }
        let last = self.header.len().saturating_sub(1);
        table.set_header(
            self.header.iter().map(|name| comfy_table::Cell::new(name).add_attribute(Attribute::Dim)),
        );
        for cells in self.rows {
            let mut row = Row::from(cells.into_iter().map(cell).collect::<Vec<_>>());
            if width.is_some() && !self.wrap {
                row.max_height(1);
            }
            table.add_row(row);
        }
        let gap = 2;
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if index == last { 0 } else { gap }));
            if self.numbers.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            // The first columns are names and must stay complete; the last column is prose and takes the rest.
            if index < last {
                column.set_constraint(match WHOLE.contains(&self.header[index]) {
                    true => ColumnConstraint::ContentWidth,
                    false => ColumnConstraint::UpperBoundary(Width::Percentage(60)),
                });
            }
        }
        let mut text = table.trim_fmt();
        text.push('\n');
        text
    }
}

fn cell(cell: TableCell) -> comfy_table::Cell {
    let drawn = comfy_table::Cell::new(&cell.text);
    match cell.tone {
        None => drawn,
        Some(Tone::Good) => drawn.fg(Color::DarkGreen),
        Some(Tone::Bad) => drawn.fg(Color::DarkRed),
        Some(Tone::Warn) => drawn.fg(Color::DarkYellow),
        Some(Tone::Dim) => drawn.add_attribute(Attribute::Dim),
        Some(Tone::Strong) => drawn.add_attribute(Attribute::Bold),
    }
}

/// The width of the output; `None` without a terminal.
pub(super) fn width() -> Option<u16> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.or_else(|| {
        let terminal = std::io::stdout().is_terminal();
        terminal.then(|| terminal_size::terminal_size().map_or(80, |(width, _)| width.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn sample() -> Table {
        let mut table = Table::new(&["TOOL", "COST", "DESCRIPTION"]).numbers(1);
        table.row([
            "mail_send".into(),
            "12".into(),
            "Sends a message to someone who has an address, and waits until it is on its way.".into(),
        ]);
        table.row(["x".into(), "7".into(), "Short.\u{1b}[31m".into()]);
        table
    }

    #[test]
    fn the_last_column_takes_the_remaining_width() {
        expect![[r#"
            TOOL       COST  DESCRIPTION
            mail_send    12  Sends a message to someone w…
            x             7  Short.\u{1b}[31m
        "#]]
        .assert_eq(&sample().draw_at(Some(46), Paint::Never));
        expect![[r#"
            TOOL       COST  DESCRIPTION
            mail_send    12  Sends a message to someone
                             who has an address, and waits
                             until it is on its way.
            x             7  Short.\u{1b}[31m
        "#]]
        .assert_eq(&sample().wrapping().draw_at(Some(46), Paint::Never));
    }

    #[test]
    fn nothing_is_truncated_for_a_pipe() {
        assert!(sample().draw_at(None, Paint::Never).contains("until it is on its way."));
    }
}
