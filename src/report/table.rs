//! Tables and lines of text fitted to a width; this file alone knows how they are drawn.
//!
//! [`table`] marks a table inside the text of a report: a line a row, a mark before each cell, and before each heading
//! its side and rank. `laid_out` draws the marked tables and wraps the other lines.

/// Begins a cell.
const CELL: char = '\u{1f}';

/// Begin a good text, a doubtful one and a bad one; [`END`] ends each.
const GOOD: char = '\u{1}';
const DOUBTFUL: char = '\u{2}';
const BAD: char = '\u{3}';
const END: char = '\u{4}';

/// The marks of colours, and what a terminal takes for them.
const COLOURS: [(char, &str); 4] = [
    (GOOD, "\u{1b}[32m"),
    (DOUBTFUL, "\u{1b}[33m"),
    (BAD, "\u{1b}[31m"),
    (END, "\u{1b}[0m"),
];

/// Spaces between columns.
const GAP: usize = 2;

/// What a heading may be narrowed to, and where that is not enough.
const NARROW_HEADING: [usize; 2] = [12, 8];

/// What a column of words is narrowed to before columns are left out, and at most.
const NARROW_WORDS: [usize; 2] = [40, 12];

/// The deepest indentation of the second line of a paragraph.
const DEEPEST: usize = 24;

/// A column of a table.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    heading: &'a str,
    is_number: bool,
    rank: u8,
}

/// A column of words.
pub fn left(heading: &str) -> Column<'_> {
    Column {
        heading,
        is_number: false,
        rank: 0,
    }
}

/// A column of numbers, which are never wrapped.
pub fn right(heading: &str) -> Column<'_> {
    Column {
        is_number: true,
        ..left(heading)
    }
}

impl Column<'_> {
    /// The column may be left out of a narrow table, those of the highest rank first; 1 to 9.
    pub fn minor(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

/// The cells of a row.
macro_rules! row {
    ($($cell:expr),* $(,)?) => {
        [$($cell.to_string()),*]
    };
}

pub(super) use row;

/// A cell that may have nothing to show.
pub fn dash(shown: Option<impl ToString>) -> String {
    shown.map_or_else(|| "-".to_owned(), |shown| shown.to_string())
}

/// A gain, or a verdict that asks for nothing.
pub fn good(text: &str) -> String {
    format!("{GOOD}{text}{END}")
}

/// What may be as wanted or not.
pub fn doubtful(text: &str) -> String {
    format!("{DOUBTFUL}{text}{END}")
}

/// A loss, or a verdict that asks for a change.
pub fn bad(text: &str) -> String {
    format!("{BAD}{text}{END}")
}

/// Marks a table without the columns that no row has anything in.
pub(super) fn filled<const COLUMNS: usize>(
    columns: [Column; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let rows: Vec<[String; COLUMNS]> = rows.into_iter().collect();
    let is_filled = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let kept: Vec<usize> = (0..COLUMNS).filter(is_filled).collect();
    let columns: Vec<_> = kept.iter().map(|&at| columns[at]).collect();
    let cells = |row: &[String; COLUMNS]| kept.iter().map(|&at| row[at].clone()).collect();
    marked(&columns, rows.iter().map(cells))
}

/// Marks a table, with a line break at the end.
pub fn table<const COLUMNS: usize>(
    columns: [Column; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    marked(&columns, rows.into_iter().map(|row| row.to_vec()))
}

fn marked(columns: &[Column], rows: impl Iterator<Item = Vec<String>>) -> String {
    let headings = columns.iter().map(|column| {
        let side = if column.is_number { 'r' } else { 'l' };
        format!("{side}{}{}", column.rank, column.heading)
    });
    let line = |cells: Vec<String>| {
        let cells = cells
            .iter()
            .map(|cell| format!("{CELL}{}", cell.replace([CELL, '\n'], " ")));
        cells.collect::<String>() + "\n"
    };
    std::iter::once(headings.collect()).chain(rows).map(line).collect()
}

/// The text with its tables drawn and its lines wrapped, none wider than `width` characters where words allow it.
pub(super) fn laid_out(text: &str, width: Option<usize>, coloured: bool) -> String {
    let mut fitted = String::new();
    for part in parts(text) {
        match part {
            Part::Line(line) => fitted += &wrapped(line, width),
            Part::Table(rows) => fitted += &drawn(&rows, width),
        }
    }
    let colour = |text: String, (mark, code): &(char, &str)| text.replace(*mark, if coloured { code } else { "" });
    COLOURS.iter().fold(fitted, colour)
}

/// The text with its tables as those of Markdown, and the lines between them as code, which keeps their alignment.
pub(super) fn markdown(text: &str) -> String {
    let (mut page, mut is_code) = (String::new(), false);
    let row = |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    for part in parts(text) {
        match part {
            Part::Line(line) if is_code || !line.is_empty() => {
                page += if is_code { "" } else { "```text\n" };
                page += &format!("{line}\n");
                is_code = true;
            }
            Part::Line(_) => {}
            Part::Table(rows) => {
                if std::mem::take(&mut is_code) {
                    page.truncate(page.trim_end().len());
                    page += "\n```\n\n";
                }
                let (headings, rows) = rows.split_first().expect("a table has headings");
                page += &row(&mut headings.iter().map(|heading| heading[2..].to_owned()));
                let side = |heading: &&str| if heading.starts_with('r') { "---:" } else { "---" }.to_owned();
                page += &row(&mut headings.iter().map(side));
                page.extend(
                    rows.iter()
                        .map(|cells| row(&mut cells.iter().map(|cell| cell.replace('|', "\\|")))),
                );
                page.push('\n');
            }
        }
    }
    page.truncate(page.trim_end().len());
    page += if is_code { "\n```\n" } else { "\n" };
    page.replace(COLOURS.map(|(mark, _)| mark), "")
}

/// A part of a marked text.
enum Part<'a> {
    Line(&'a str),
    /// Headings with their marks, then rows.
    Table(Vec<Vec<&'a str>>),
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix(CELL), parts.last_mut()) {
            (Some(row), Some(Part::Table(rows))) => rows.push(row.split(CELL).collect()),
            (Some(row), _) => parts.push(Part::Table(vec![row.split(CELL).collect()])),
            (None, _) => parts.push(Part::Line(line)),
        }
    }
    parts
}

/// A line, broken at words; what follows its label is indented below itself.
fn wrapped(line: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| *width < length(line)) else {
        return format!("{line}\n");
    };
    let start = line.len() - line.trim_start().len();
    let label = line[start..].find("  ").map(|at| {
        let rest = &line[start + at..];
        start + at + rest.len() - rest.trim_start().len()
    });
    let label = label.map(|label| length(&line[..label]));
    let indent = label.filter(|label| *label <= DEEPEST).unwrap_or(start + 2);
    let mut lines = broken(line, [width, width.saturating_sub(indent)]).into_iter();
    let first = lines.next().unwrap_or_default();
    let rest = lines.map(|line| format!("{:indent$}{line}\n", ""));
    format!("{first}\n{}", rest.collect::<String>())
}

/// Parts of a text: the first of at most as many characters as the first width says, the others of the second.
fn broken(text: &str, [first, others]: [usize; 2]) -> Vec<&str> {
    let (mut parts, mut rest, mut width) = (Vec::new(), text, first);
    while length(rest) > width {
        let start = rest.len() - rest.trim_start().len();
        let blanks = rest.char_indices().filter(|(_, letter)| *letter > END).enumerate();
        let mut blanks =
            blanks.filter(|(_, (at, letter))| *at >= start && *letter == ' ' && !rest[*at..].starts_with(" %"));
        let first = blanks.next();
        let last = blanks.take_while(|(count, _)| *count <= width).last();
        let Some((_, (at, _))) = last.or(first) else {
            break;
        };
        parts.push(rest[..at].trim_end());
        (rest, width) = (rest[at..].trim_start(), others);
    }
    parts.push(rest);
    parts
}

/// Characters that are seen.
fn length(text: &str) -> usize {
    text.chars().filter(|letter| *letter > END).count()
}

/// The table of these rows, the first of them its marked headings.
fn drawn(rows: &[Vec<&str>], width: Option<usize>) -> String {
    let Some((headings, rows)) = rows.split_first() else {
        return String::new();
    };
    let columns = headings.iter().map(|heading| Column {
        heading: &heading[2..],
        is_number: heading.starts_with('r'),
        rank: heading.as_bytes()[1] - b'0',
    });
    let columns: Vec<Column> = columns.collect();
    let content = (0..columns.len()).map(|at| rows.iter().map(|row| length(row[at])).max().unwrap_or(0));
    let headed = columns.iter().zip(content.clone());
    let mut widths: Vec<usize> = headed
        .map(|(column, content)| content.max(length(column.heading)))
        .collect();
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let sum = |kept: &[usize], of: &dyn Fn(usize) -> usize| {
        kept.iter().map(|&at| of(at)).sum::<usize>() + GAP * kept.len().saturating_sub(1)
    };
    let width = width.filter(|width| *width < sum(&kept, &|at| widths[at]));
    if let Some(width) = width {
        let [before, most] = NARROW_WORDS;
        let longest_word = |at: usize| {
            let words = rows.iter().flat_map(|row| row[at].split(' '));
            words.map(length).max().unwrap_or(0)
        };
        let least = |widths: &[usize], at: usize| match columns[at].is_number {
            true => widths[at],
            false => widths[at].min(before),
        };
        for narrow in NARROW_HEADING {
            for ((all, column), content) in widths.iter_mut().zip(&columns).zip(content.clone()) {
                let words = column.heading.split(' ').map(length).max().unwrap_or(0);
                *all = content.max(length(column.heading).min(words.max(narrow)));
            }
            if sum(&kept, &|at| least(&widths, at)) <= width {
                break;
            }
        }
        while sum(&kept, &|at| least(&widths, at)) > width
            && let Some(least) = kept.iter().copied().max_by_key(|at| columns[*at].rank)
            && columns[least].rank > 0
        {
            kept.retain(|at| *at != least);
        }
        while sum(&kept, &|at| widths[at]) > width
            && let Some(widest) = kept
                .iter()
                .copied()
                .filter(|at| !columns[*at].is_number && widths[*at] > most.max(longest_word(*at)))
                .max_by_key(|at| widths[*at])
        {
            widths[widest] -= 1;
        }
    }
    let line = |cells: Vec<&str>| {
        let parts = kept.iter().map(|&at| broken(cells[at], [widths[at]; 2]));
        let parts: Vec<_> = parts.collect();
        let lines = parts.iter().map(Vec::len).max().unwrap_or(0);
        let lines = (0..lines).map(|number| {
            let cells = kept.iter().zip(&parts).map(|(&at, parts)| {
                let (part, width) = (parts.get(number).unwrap_or(&""), widths[at]);
                let blank = " ".repeat(width.saturating_sub(length(part)));
                match columns[at].is_number {
                    true => blank + part,
                    false => part.to_string() + &blank,
                }
            });
            let cells: Vec<_> = cells.collect();
            cells.join(&" ".repeat(GAP)).trim_end().to_owned() + "\n"
        });
        lines.collect::<String>()
    };
    let mut text = line(columns.iter().map(|column| column.heading).collect());
    text += &format!("{}\n", "-".repeat(sum(&kept, &|at| widths[at])));
    text.extend(rows.iter().map(|row| line(row.clone())));
    let hidden = (0..columns.len()).filter(|at| !kept.contains(at));
    let hidden: Vec<_> = hidden.map(|at| columns[at].heading).collect();
    if !hidden.is_empty() {
        let noun = if hidden.len() > 1 { "columns" } else { "column" };
        let hint = format!("--wide shows {} more {noun}: {}", hidden.len(), hidden.join(", "));
        text += &wrapped(&hint, width);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> String {
        let rows = [
            ["qkv", "3", "16", "bf16"],
            ["mlp_up", "12", "8", "fp8 with one scale a block"],
        ];
        let columns = [
            left("role"),
            right("count"),
            right("time to equal loss").minor(2),
            left("format"),
        ];
        table(columns, rows.map(|row| row.map(str::to_owned)))
    }

    #[test]
    fn a_table_fits_its_width_by_headings_then_columns_then_words() {
        for (width, expected) in [
            (
                None,
                "\
role    count  time to equal loss  format
-------------------------------------------------------------
qkv         3                  16  bf16
mlp_up     12                   8  fp8 with one scale a block
",
            ),
            (
                Some(60),
                "\
role    count       time to  format
                 equal loss
-------------------------------------------------------
qkv         3            16  bf16
mlp_up     12             8  fp8 with one scale a block
",
            ),
            (
                Some(50),
                "\
role    count  format
-----------------------------------------
qkv         3  bf16
mlp_up     12  fp8 with one scale a block
--wide shows 1 more column: time to equal loss
",
            ),
            (
                Some(30),
                "\
role    count  format
------------------------------
qkv         3  bf16
mlp_up     12  fp8 with one
               scale a block
--wide shows 1 more column:
  time to equal loss
",
            ),
        ] {
            assert_eq!(laid_out(&sample(), width, false), expected, "{width:?}");
        }
    }

    #[test]
    fn lines_are_broken_at_words_below_their_label() {
        for (line, width, expected) in [
            ("short", 5, "short"),
            ("one two three", 7, "one two\n  three"),
            (
                "  fix     a wider hidden size",
                22,
                "  fix     a wider\n          hidden size",
            ),
            (
                "a-long-word-that-cannot-be-broken",
                9,
                "a-long-word-that-cannot-be-broken",
            ),
            ("Größe → größer", 8, "Größe →\n  größer"),
        ] {
            assert_eq!(
                laid_out(&format!("{line}\n"), Some(width), false),
                format!("{expected}\n")
            );
        }
    }

    #[test]
    fn markdown_has_tables_and_keeps_the_lines_between() {
        let rows = [["a|b".to_owned(), bad("1")]];
        let text = format!("\n{}one   x\n\ntwo\n\n{0}", table([left("role"), right("n")], rows));
        let drawn = "| role | n |\n| --- | ---: |\n| a\\|b | 1 |\n";
        let expected = format!("{drawn}\n```text\none   x\n\ntwo\n```\n\n{drawn}");
        assert_eq!(markdown(&text), expected);
        assert_eq!(markdown("one\n"), "```text\none\n```\n");
    }

    #[test]
    fn colours_take_no_room() {
        let row = |text: String| [text, "1".to_owned()];
        let rows = [row(bad("BROKEN")), row(good("met")), row("-".to_owned())];
        let text = table([left("verdict"), right("n")], rows);
        let plain = laid_out(&text, Some(20), false);
        assert_eq!(plain.lines().nth(2), Some("BROKEN   1"));
        let coloured = laid_out(&text, Some(20), true);
        assert_eq!(coloured.lines().nth(2), Some("\u{1b}[31mBROKEN\u{1b}[0m   1"));
        let stripped = ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[0m"]
            .iter()
            .fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(stripped, plain);
    }
}
