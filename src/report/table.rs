//! Plain aligned tables; this file alone knows how they are drawn.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle};

/// Which side a column is aligned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Draws a table without the columns that no row has anything in.
pub(super) fn filled<const COLUMNS: usize>(
    headings: [(&str, Side); COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let rows: Vec<[String; COLUMNS]> = rows.into_iter().collect();
    let is_filled = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let kept: Vec<usize> = (0..COLUMNS).filter(is_filled).collect();
    let cells = |row: &[String; COLUMNS]| kept.iter().map(|&at| row[at].clone()).collect();
    drawn(
        &kept.iter().map(|&at| headings[at]).collect::<Vec<_>>(),
        rows.iter().map(cells),
    )
}

/// Draws a table under these headings, with a line break at the end.
///
/// The text is the same whatever terminal it goes to: nothing is wrapped, coloured or cut.
pub(super) fn table<const COLUMNS: usize>(
    headings: [(&str, Side); COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    drawn(&headings, rows.into_iter().map(|row| row.to_vec()))
}

fn drawn(headings: &[(&str, Side)], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table
        .load_style(NOTHING.header_separator(LineStyle::none().fill('-').junction('-')))
        .set_content_arrangement(ContentArrangement::Disabled)
        .force_no_tty()
        .set_header(headings.iter().map(|(heading, _)| *heading));
    for row in rows {
        table.add_row(row);
    }
    for (column, (_, side)) in table.column_iter_mut().zip(headings) {
        column.set_cell_alignment(match side {
            Side::Left => CellAlignment::Left,
            Side::Right => CellAlignment::Right,
        });
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lean_left_and_numbers_right() {
        let rows = [["qkv", "3"], ["mlp_up", "12"]].map(|row| row.map(str::to_owned));
        let text = table([("role", Side::Left), ("count", Side::Right)], rows);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                " role     count",
                "----------------",
                " qkv          3",
                " mlp_up      12",
            ]
        );
    }
}
