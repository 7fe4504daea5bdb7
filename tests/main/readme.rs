//! What `README.md` prints and states is what the program prints and `docs/accuracy.md` states.
//!
//! Every block of commands with printed output runs again, in a shell, in an empty folder. A line of
//! `…` stands for any number of lines. Blocks that need the public tables, `jq` or `curl` skip where
//! these are missing, and say so.

use crate::cli::program;
use crate::skip::skip;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A command and what the document prints below it.
struct Step {
    /// The line of the document.
    at: usize,
    command: String,
    printed: Vec<String>,
}

fn text_of(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The blocks of commands of a document.
fn blocks(text: &str) -> Vec<Vec<Step>> {
    let mut blocks: Vec<Vec<Step>> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
            if inside {
                blocks.push(Vec::new());
            }
        } else if inside {
            let block = blocks.last_mut().expect("a block was begun");
            match line.strip_prefix("$ ") {
                Some(command) => block.push(Step {
                    at: index + 1,
                    command: command.to_owned(),
                    printed: Vec::new(),
                }),
                None => block
                    .last_mut()
                    .unwrap_or_else(|| panic!("README.md:{}: no command above", index + 1))
                    .printed
                    .push(line.to_owned()),
            }
        }
    }
    blocks
}

/// What is wrong with `printed` as an account of `output`, if anything.
fn difference(printed: &[String], output: &str) -> Option<String> {
    let output: Vec<&str> = output.lines().map(str::trim_end).collect();
    let chunks: Vec<&[String]> = printed.split(|line| line == "…").collect();
    let mut from = 0;
    for (index, chunk) in chunks.iter().enumerate() {
        let fits = |at: usize| {
            let there = output.get(at..at + chunk.len());
            there.is_some_and(|lines| lines.iter().eq(chunk.iter()))
        };
        let last = index + 1 == chunks.len();
        let at = match (index, last) {
            (0, true) if fits(0) && output.len() == chunk.len() => Some(0),
            (0, true) => None,
            (0, false) => fits(0).then_some(0),
            (_, true) => {
                (output.len().checked_sub(chunk.len())).filter(|at| *at >= from && fits(*at))
            }
            (_, false) => (from..=output.len()).find(|at| fits(*at)),
        };
        let Some(at) = at else {
            let unknown = chunk.iter().find(|line| !output.contains(&line.as_str()));
            let line = unknown.or(chunk.first()).map_or("", String::as_str);
            return Some(format!(
                "`{line}` is not printed there:\n{}",
                output.join("\n")
            ));
        };
        from = at + chunk.len();
    }
    None
}

/// What a command of this machine lacks, if anything: the word of `SHAPEWISE_REQUIRE`, and what it is.
fn lacking(steps: &[Step]) -> Option<(&'static str, &'static str)> {
    let says = |word: &str| steps.iter().any(|step| step.command.contains(word));
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    let tables = std::env::var_os("SHAPEWISE_PUBLIC_DATA").is_some();
    if says("import ") && !tables {
        return Some(("tables", "SHAPEWISE_PUBLIC_DATA names no folder"));
    }
    let tools = ["curl", "jq"];
    let absent = |tool: &&str| says(&format!("{tool} ")) && !has(tool);
    tools.into_iter().find(absent).map(|tool| ("curl", tool))
}

/// Runs a block in an empty folder and returns what differs.
fn differences(steps: &[Step]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(program(), bin.path().join("shapewise")).unwrap();
    if let Some(tables) = std::env::var_os("SHAPEWISE_PUBLIC_DATA") {
        for entry in fs::read_dir(tables).unwrap() {
            let table = entry.unwrap().path();
            let name = table.file_name().unwrap();
            std::os::unix::fs::symlink(&table, folder.path().join(name)).unwrap();
        }
    }
    let path = format!(
        "{}:{}",
        bin.path().display(),
        std::env::var("PATH").unwrap()
    );
    let server = Server::of(steps);
    let mut found = Vec::new();
    for step in steps.iter().filter(|step| !Server::starts(step)) {
        // The program of these tests is what it would install.
        if step.command.starts_with("cargo install ") {
            continue;
        }
        let output = Command::new("sh")
            .args(["-c", &server.addressed(&step.command)])
            .current_dir(folder.path())
            .env("PATH", &path)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            found.push(format!("README.md:{}: {}: {error}", step.at, step.command));
        } else if step.printed.is_empty() {
            // Shown without what it prints.
        } else if let Some(wrong) = difference(&step.printed, &text) {
            found.push(format!("README.md:{}: {}: {wrong}", step.at, step.command));
        }
    }
    found
}

/// The service that a block starts, on a port of its own.
struct Server {
    #[cfg(feature = "serve")]
    running: Option<crate::http::Server>,
}

impl Server {
    fn starts(step: &Step) -> bool {
        step.command == "shapewise serve &"
    }

    #[cfg(feature = "serve")]
    fn of(steps: &[Step]) -> Self {
        let wanted = steps.iter().any(Self::starts);
        Self {
            running: wanted.then(crate::http::Server::start),
        }
    }

    #[cfg(not(feature = "serve"))]
    fn of(_: &[Step]) -> Self {
        Self {}
    }

    /// The command with the address that the service has here.
    fn addressed(&self, command: &str) -> String {
        #[cfg(feature = "serve")]
        if let Some(server) = &self.running {
            return command.replace("localhost:8080", &server.address);
        }
        command.to_owned()
    }
}

#[test]
fn commands_print_what_the_readme_shows() {
    let text = text_of("README.md");
    let blocks = blocks(&text);
    let mut wrong = Vec::new();
    let mut shown = 0;
    for steps in &blocks {
        if steps.iter().all(|step| step.printed.is_empty()) {
            continue;
        }
        if cfg!(not(feature = "serve")) && steps.iter().any(Server::starts) {
            continue;
        }
        if let Some((need, what)) = lacking(steps) {
            skip(need, format!("README.md:{}: {what}", steps[0].at));
            continue;
        }
        shown += steps.len();
        wrong.extend(differences(steps));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(shown >= 8, "only {shown} commands of README.md were run");
}

/// The cells of a row of a table.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// Every row of errors of `docs/accuracy.md`: GPU, family, format, stack, rows, errors, half width.
fn judged() -> Vec<Vec<String>> {
    let text = text_of("docs/accuracy.md");
    let mut gpu = "";
    let mut rows = Vec::new();
    for line in text.lines() {
        gpu = line.strip_prefix("## ").unwrap_or(gpu);
        let cells = cells(line);
        // Family, format, stack, rows, median, mean, p90, half width, and five more.
        if cells.len() == 12 && cells[3].chars().next().is_some_and(|c| c.is_ascii_digit()) {
            let row = std::iter::once(gpu).chain(cells[..8].iter().copied());
            rows.push(row.map(str::to_owned).collect());
        }
    }
    assert!(rows.len() > 40, "docs/accuracy.md has {} rows", rows.len());
    rows
}

#[test]
fn errors_in_the_readme_are_those_of_the_document_on_accuracy() {
    let judged = judged();
    let text = text_of("README.md");
    let heading = "| GPU | operators | stack | held-out rows |";
    let table = text.lines().skip_while(|line| !line.starts_with(heading));
    let rows: Vec<&str> = table
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert!(rows.len() >= 10, "README.md has no table `{heading}`");
    for line in rows {
        let row = cells(line);
        let (operators, format) = row[1].rsplit_once(' ').expect("operators and format");
        let (family, format) = match operators {
            "GEMM" => ("gemm", format.to_owned()),
            "prefill attention" => ("prefill", format.to_owned()),
            "decode attention" => ("decode", format.to_owned()),
            "bidirectional attention" => ("bidirectional", format.to_owned()),
            "backward attention" => ("prefill_backward", format.to_owned()),
            "layers of experts" => ("experts", format.to_owned()),
            "latent decode" => ("latent_decode", format.to_owned()),
            "Gated DeltaNet prefill" => ("linear_prefill", format!("gated_delta_net {format}")),
            "Gated DeltaNet decode" => ("linear_decode", format!("gated_delta_net {format}")),
            "Mamba-2 decode" => ("linear_decode", format!("mamba2 {format}")),
            other => panic!("README.md: unknown operators `{other}`"),
        };
        let mut wanted = vec![row[0], family, &format];
        wanted.extend(&row[2..]);
        let there = judged.iter().any(|known| known.iter().eq(wanted.iter()));
        assert!(
            there,
            "docs/accuracy.md has other numbers than README.md: {line}"
        );
    }
}

/// Numbers in prose that a command prints.
#[test]
fn counts_in_prose_are_those_of_the_program() {
    let readme = text_of("README.md");
    let presets = crate::cli::json("presets");
    let count = presets["presets"].as_array().expect("presets").len();
    let sentence = format!("`shapewise presets` the {count} models known by name");
    let flowing = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flowing.contains(&sentence), "README.md lacks: {sentence}");
    let tests = text_of(".ci/run");
    let command = "cargo test";
    assert!(readme.contains(&format!("$ {command}\n")));
    // With the features that are off by default.
    let runs = |line: &str| line.split(" --features ").next() == Some(command);
    assert!(tests.lines().any(runs), ".ci/run: {command}");
}

#[test]
fn a_difference_is_found() {
    let printed = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let output = "one\ntwo\nthree\nfour\n";
    for text in [output, "…\nthree\nfour", "one\n…", "one\n…\nthree\n…", "…"] {
        assert_eq!(difference(&printed(text), output), None, "{text}");
    }
    for text in [
        "one\ntwo",
        "two\n…",
        "…\nthree",
        "one\n…\nsix\n…",
        "…\nthree\n…\ntwo\n…",
    ] {
        assert!(difference(&printed(text), output).is_some(), "{text}");
    }
    let text = "```console\n$ a | b\nx\n$ c\n```\n";
    let block = &blocks(text)[0];
    assert_eq!((block[0].at, &*block[0].command), (2, "a | b"));
    assert_eq!((block[0].printed.len(), block[1].printed.len()), (1, 0));
}

/// The first picture is what its command draws.
#[test]
fn the_first_picture_is_that_of_the_program() {
    let text = text_of("README.md");
    let shown =
        "![Tokens per second of Llama 3 8B against the number of sequences](docs/decode.svg)";
    assert!(text.contains(shown), "README.md lacks {shown}");
    let steps = blocks(&text);
    let mut steps = steps.iter().flatten();
    let step = steps.find(|step| step.command.ends_with(" --plot decode.svg"));
    let line = step.expect("README.md draws it").command.clone();
    let folder = tempfile::tempdir().unwrap();
    let words = line.split_whitespace().skip(1);
    let output = Command::new(program())
        .args(words)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let drawn = fs::read_to_string(folder.path().join("decode.svg")).unwrap();
    assert!(
        drawn == text_of("docs/decode.svg"),
        "docs/decode.svg is not what `{line}` draws"
    );
}
