//! What people type, held against `tests/mistakes.txt`.

use crate::cli::{CONFIG, program};
use std::path::Path;
use std::process::Command;

const TABLE: &str = include_str!("../mistakes.txt");

/// Lines of the table, with whether each is of a file.
fn lines() -> impl Iterator<Item = [&'static str; 3]> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let mut cells = line.splitn(3, " | ");
        std::array::from_fn(|_| cells.next().unwrap_or_else(|| panic!("three cells: {line}")))
    })
}

fn write_files(folder: &Path) {
    for [_, name, holds] in lines().filter(|[kind, ..]| *kind == "file") {
        let text = match holds.split_once(" -> ") {
            Some((from, to)) => {
                assert!(CONFIG.contains(from), "{name}: {from}");
                CONFIG.replacen(from, to, 1)
            }
            None if holds == "LLAMA" => CONFIG.to_owned(),
            None => holds.replace(';', "\n"),
        };
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// The words of a line, of which some are between quotes.
fn words(line: &str) -> Vec<&str> {
    let parts = line.split('"').enumerate();
    let words = parts.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    words.collect()
}

/// Whether a command needs no part that this build leaves out.
fn is_whole(words: &[&str]) -> bool {
    let parts = [
        (
            cfg!(feature = "dataset"),
            &["import", "evaluate", "calibrate", "measure", "--data"][..],
        ),
        (cfg!(feature = "train"), &["train"]),
        (cfg!(feature = "serve"), &["serve"]),
        (cfg!(feature = "mcp"), &["mcp"]),
    ];
    parts
        .iter()
        .all(|(is_there, names)| *is_there || !words.iter().any(|word| names.contains(word)))
}

/// What is wrong with the answer to one line.
fn judge(folder: &Path, [code, line, phrases]: [&str; 3]) -> Option<String> {
    let words = words(line);
    if !is_whole(&words) {
        return None;
    }
    let mut command = Command::new(program());
    command.args(&words).current_dir(folder).env_remove("SHAPEWISE_GPU");
    let output = command.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let found = output.status.code().map(|code| code.to_string());
    let output = if code == "0" { &out } else { &err };
    let is_one_error = code == "0" || out.is_empty() && err.starts_with("error: ");
    let is_one_line = code != "1" || err.lines().count() == 1;
    let says_all = phrases.split(" & ").all(|phrase| output.contains(phrase));
    let is_right = found.as_deref() == Some(code) && is_one_error && is_one_line && says_all;
    (!is_right).then(|| format!("{code} | {line} | {phrases}\n  was {found:?}: {out}{err}"))
}

#[test]
fn what_is_typed_wrong_is_answered_with_what_is_right() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let typed: Vec<_> = lines().filter(|[kind, ..]| *kind != "file").collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let judge = |lines: &[_]| lines.iter().filter_map(|line| judge(folder.path(), *line)).collect();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let parts = typed.chunks(typed.len().div_ceil(threads));
        let parts: Vec<_> = parts.map(|lines| scope.spawn(move || judge(lines))).collect();
        let parts = parts.into_iter().map(|part| part.join().unwrap());
        parts.collect::<Vec<Vec<_>>>().concat()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
