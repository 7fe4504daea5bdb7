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

/// Draws a table under these headings, with a line break at the end.
///
/// The text is the same whatever terminal it goes to: nothing is wrapped, coloured or cut.
pub(super) fn table<const COLUMNS: usize>(
    headings: [(&str, Side); COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut table = comfy_table::Table::new();
    table
        .load_style(NOTHING.header_separator(LineStyle::none().fill('-').junction('-')))
        .set_content_arrangement(ContentArrangement::Disabled)
        .force_no_tty()
        .set_header(headings.map(|(heading, _)| heading));
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
