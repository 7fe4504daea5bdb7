//! What documents print and state is what the program prints and what its data say.
//!
//! Every block of commands with printed output runs again, in a shell, in an empty folder. A line of `…` matches any
//! number of lines. Blocks that need the public tables, `jq` or `curl` skip where these are missing, and say so. Sections
//! between `<!-- written by the test: NAME -->` and `<!-- end -->`, whole files and pictures are made here.
//! `SHAPEWISE_BLESS=1 cargo test --test main documents` writes all of it anew.

use crate::cli::json;
use crate::cli::number;
use crate::cli::program;
use crate::files::{blessing, root, text_of};
use crate::skip::skip;
use clap::{Arg, Command as Grammar};
use serde_json::Value;
use shapewise::cli::args::Cli;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A command and what the document prints below it.
struct Step {
    /// The line of the document.
    at: usize,
    command: String,
    printed: Vec<String>,
}

fn path_of(file: &str) -> PathBuf {
    root().join(file)
}

/// A file is `text`, or is written where that is asked.
fn holds(file: &str, text: &str) {
    if blessing() {
        fs::write(path_of(file), text).unwrap();
    }
    let there = fs::read_to_string(path_of(file)).unwrap_or_default();
    let mut lines = there.lines().zip(text.lines()).enumerate();
    let other = lines.find(|(_, (there, wanted))| there != wanted);
    let place = other.map(|(index, (there, wanted))| format!("line {}: `{there}`, wanted `{wanted}`", index + 1));
    assert!(
        there == text,
        "{file} is out of date (SHAPEWISE_BLESS=1 writes it); {}",
        place.unwrap_or_else(|| "another length".to_owned())
    );
}

/// A section of a document is `text`.
pub fn section_holds(file: &str, name: &str, text: &str) {
    let whole = text_of(file);
    let begin = format!("<!-- written by the test: {name} -->\n");
    let (before, rest) = whole
        .split_once(&begin)
        .unwrap_or_else(|| panic!("{file} lacks {begin}"));
    let (_, after) = rest.split_once("<!-- end -->").expect("an end");
    holds(file, &format!("{before}{begin}{text}<!-- end -->{after}"));
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
                    .unwrap_or_else(|| panic!("line {}: no command above", index + 1))
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
            (_, true) => (output.len().checked_sub(chunk.len())).filter(|at| *at >= from && fits(*at)),
            (_, false) => (from..=output.len()).find(|at| fits(*at)),
        };
        let Some(at) = at else {
            let unknown = chunk.iter().find(|line| !output.contains(&line.as_str()));
            let line = unknown.or(chunk.first()).map_or("", String::as_str);
            return Some(format!("`{line}` is not printed there:\n{}", output.join("\n")));
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

/// What `printed` becomes for a new output: its chunks between lines of `…`, each where the output is most like it.
fn renewed(printed: &[String], output: &str) -> Vec<String> {
    let output: Vec<&str> = output.lines().map(str::trim_end).collect();
    let chunks: Vec<&[String]> = printed.split(|line| line == "…").collect();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let likeness = |chunk: &[String], at: usize| {
        let lines = chunk.iter().zip(&output[at..]).map(|(old, new)| {
            let (old, new) = (words(old), words(new));
            let first = usize::from(old.first() == new.first());
            first * 3 + old.iter().filter(|word| new.contains(word)).count()
        });
        lines.sum::<usize>()
    };
    let (mut from, mut lines) = (0, Vec::new());
    for (index, chunk) in chunks.iter().enumerate() {
        if index > 0 {
            lines.push("…".to_owned());
        }
        let latest = output.len().saturating_sub(chunk.len());
        let at = match (index, index + 1 == chunks.len()) {
            (0, true) => return output.into_iter().map(str::to_owned).collect(),
            (0, false) => 0,
            (_, true) => latest,
            (_, false) => (from..=latest)
                .rev()
                .max_by_key(|at| likeness(chunk, *at))
                .unwrap_or(latest),
        };
        from = at + chunk.len();
        lines.extend(output[at..].iter().take(chunk.len()).map(|line| (*line).to_owned()));
    }
    lines
}

/// A step whose output is not what the document shows.
struct Change {
    what: String,
    /// The lines that belong there, if the command succeeded.
    lines: Option<Vec<String>>,
}

/// Runs a block in an empty folder and returns what differs, by step. Pictures that it draws are those of `docs`.
fn changes(steps: &[Step]) -> Vec<(usize, Change)> {
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
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
    let server = Server::of(steps);
    let mut found = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        if Server::starts(step) {
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
        let refused = step.printed.iter().any(|line| line.starts_with("error: "));
        let shown = if refused { &error } else { &text };
        let is_table = step.command.starts_with("shapewise ") && !step.command.contains(['|', '<']) && !refused;
        let is_table = is_table && !step.command.contains("--format json");
        let wide = text
            .lines()
            .find(|line| is_table && line.chars().count() > crate::terminal::WIDTH);
        let change = if let Some(line) = wide {
            Some((format!("wider than {}: {line}", crate::terminal::WIDTH), None))
        } else if output.status.success() == refused {
            Some((error.to_string(), None))
        } else if step.printed.is_empty() {
            None
        } else {
            let lines = renewed(&step.printed, shown);
            difference(&step.printed, shown).map(|what| (what, Some(lines)))
        };
        if let Some((what, lines)) = change {
            let what = format!("{}: {what}", step.command);
            found.push((index, Change { what, lines }));
        }
    }
    for entry in fs::read_dir(folder.path()).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".svg") && !file.is_symlink() {
            holds(&format!("docs/{name}"), &fs::read_to_string(&file).unwrap());
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

/// Runs the blocks of a document that print or draw something; returns how many commands that were.
fn check_commands(file: &str) -> usize {
    let text = text_of(file);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (mut wrong, mut shown) = (Vec::new(), 0);
    // From the end, so that lines that are replaced move none that is still looked at.
    for steps in blocks(&text).iter().rev() {
        let has_output = |step: &Step| !step.printed.is_empty() || step.command.contains("--plot ");
        if !steps.iter().any(has_output) {
            continue;
        }
        if cfg!(not(feature = "serve")) && steps.iter().any(Server::starts) {
            continue;
        }
        if let Some((need, what)) = lacking(steps) {
            skip(need, format!("{file}:{}: {what}", steps[0].at));
            continue;
        }
        shown += steps.len();
        for (index, change) in changes(steps).into_iter().rev() {
            let Step { at, printed, .. } = &steps[index];
            match change.lines {
                Some(new) if blessing() => {
                    lines.splice(*at..at + printed.len(), new);
                }
                _ => wrong.push(format!("{file}:{at}: {}", change.what)),
            }
        }
    }
    if blessing() {
        fs::write(path_of(file), lines.join("\n") + "\n").unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    shown
}

#[test]
fn commands_print_what_the_readme_shows() {
    let shown = check_commands("README.md");
    assert!(shown >= 6, "only {shown} commands of README.md were run");
    section_holds("README.md", "errors", &errors());
    let length = text_of("README.md").len();
    assert!(length <= 10 * 1024, "README.md has {length} bytes");
}

/// The errors of eight kinds of predictions, as a table.
fn errors() -> String {
    let mut table =
        "| | on | cases | median | 90 % are within | inside the interval |\n| --- | --- | --: | --: | --: | --: |\n"
            .to_owned();
    let mut row = |what: &str, place: &str, cases: u64, shares: [f64; 3]| {
        let [median, most, inside] = shares.map(|share| share * 100.0);
        let median = format!("{median:.1} % | {most:.0} % | {inside:.0} %");
        table += &format!("| {what} | {place} | {cases} | {median} |\n");
    };
    for (what, file, kind) in [
        ("training step, dense, Megatron-LM", "megatron", "train_dense"),
        ("training step, MoE, Megatron-LM", "megatron", "train_moe"),
        ("training step, dense, FSDP2", "fsdp2", "train_dense"),
        (
            "time per token, vLLM, SGLang, TensorRT-LLM, dense",
            "servers",
            "decode_dense",
        ),
        ("time to the first token, 1 to 512 requests", "servers", "first_token"),
    ] {
        let text = text_of(&format!("data/frameworks/{file}.toml"));
        let data: toml::Table = toml::from_str(&text).unwrap();
        let fit = &data["fits"][kind];
        let share = |key: &str| fit[key].as_float().unwrap();
        let groups = fit["groups"].as_array().unwrap();
        let gpus = groups.iter().flat_map(|group| group["gpus"].as_array().unwrap());
        let mut gpus: Vec<&str> = gpus.map(|gpu| gpu.as_str().unwrap()).collect();
        gpus.sort_unstable();
        gpus.dedup();
        let place = match gpus.len() {
            0..=3 => gpus.join(", "),
            many => format!("{many} GPUs"),
        };
        let runs = u64::try_from(fit["runs"].as_integer().unwrap()).unwrap();
        row(what, &place, runs, ["median_ape", "p90_ape", "coverage_90"].map(share));
    }
    let models = json("models");
    for (what, family) in [
        ("GEMM, bf16", "gemm"),
        ("attention, prefill, bf16", "prefill"),
        ("MoE layer, bf16", "experts"),
    ] {
        let of = |model: &&Value| model["gpu"] == "h200" && model["family"] == family && model["dtype"] == "bf16";
        let model = models["models"].as_array().unwrap().iter().find(of).expect(family);
        let all = &model["held_out"][0];
        let shares = ["median_ape", "p90_ape", "coverage_90"].map(|key| number(all, key));
        let place = format!("h200, {}", model["stack"].as_str().unwrap());
        row(what, &place, all["n"].as_u64().unwrap(), shares);
    }
    table
}

/// What meeting a rule gains on a GPU, as `docs/guide.md` shows it: a change, its rule, options of a sweep over the two
/// sizes, the better of which is the first (`true`) or the last, and marks of footnotes by GPU.
const RULES: [(&str, &str, &str, bool); 8] = [
    (
        "inner width of the MLP 10,242 → 10,240",
        "mlp-shard",
        "--heads 20 --vocab 50304 --d-ff 10240,10242",
        true,
    ),
    (
        "inner width of the MLP 10,248 → 10,240",
        "mlp-shard",
        "--heads 20 --vocab 50304 --d-ff 10240,10248",
        true,
    ),
    (
        "32 heads of 80 → 20 of 128, unfused attention",
        "few-heads",
        "--vocab 50304 --heads 20,32 --attention unfused",
        true,
    ),
    (
        "32 heads of 80 → 20 of 128",
        "head-size",
        "--vocab 50304 --heads 20,32",
        true,
    ),
    (
        "vocabulary 50,257 → 50,304",
        "vocabulary",
        "--heads 20 --vocab 50257,50304",
        false,
    ),
    (
        "vocabulary 50,264 (a multiple of 8) → 50,304",
        "vocabulary",
        "--heads 20 --vocab 50264,50304",
        false,
    ),
    (
        "micro-batch 1 → 8",
        "micro-batch",
        "--heads 20 --vocab 50304 --batch 1,8",
        false,
    ),
    (
        "2 tensor-parallel ranks → 1, per GPU",
        "tensor-parallel",
        "--heads 20 --vocab 51200 --tp 1,2",
        true,
    ),
];
const NOTES: [(usize, &str, &str); 4] = [
    (0, "v100", " ¹"),
    (4, "v100", " ¹"),
    (3, "v100", " ³"),
    (2, "mi250x", " ²"),
];

fn rules() -> String {
    let gpus = ["v100", "a100", "h200", "b200", "mi250x"];
    let names = gpus.map(str::to_uppercase).join(" | ");
    let mut table = format!(
        "| change | rule | {names} |\n| --- | --- |{}\n",
        " --: |".repeat(gpus.len())
    );
    for (index, (change, rule, options, first)) in RULES.into_iter().enumerate() {
        table += &format!("| {change} | `{rule}` |");
        for gpu in gpus {
            let dtype = if ["v100", "mi250x"].contains(&gpu) {
                "fp16"
            } else {
                "bf16"
            };
            let sweep = json(&format!("sweep model gpt3-2.7b --gpu {gpu} --dtype {dtype} {options}"));
            let rate = |point: &Value| {
                let ranks = if options.contains("--tp") {
                    number(point, "value")
                } else {
                    1.0
                };
                number(point, "tokens_per_s") / ranks
            };
            let points = sweep["points"].as_array().unwrap();
            assert_eq!(points.len(), 2, "{options}");
            let ratio = rate(&points[0]) / rate(&points[1]);
            let gain = if first { ratio } else { 1.0 / ratio } - 1.0;
            let note = NOTES.iter().find(|note| (note.0, note.1) == (index, gpu));
            table += &format!(" {:.0} %{} |", (gain * 100.0).max(0.0), note.map_or("", |note| note.2));
        }
        table.push('\n');
    }
    table
}

#[test]
fn the_guide_has_the_numbers_of_the_program() {
    section_holds("docs/guide.md", "rules", &rules());
    check_commands("docs/guide.md");
}

#[test]
fn troubles_are_those_of_the_program() {
    check_commands("docs/troubleshooting.md");
}

/// Every command, then every option once with the commands that take it.
pub fn commands() -> String {
    let mut root = Cli::arranged();
    root.build();
    let mut text = "# Command line\n\n`--help` after a command says more.\n\n\
        | command | what it does |\n| --- | --- |\n"
        .to_owned();
    let mut options: BTreeMap<(&str, String, String), Vec<String>> = BTreeMap::new();
    let mut commands: Vec<&Grammar> = root.get_subcommands().collect();
    commands.reverse();
    let mut count = 0;
    while let Some(command) = commands.pop() {
        let name = command.get_bin_name().unwrap_or_default();
        let name = name.trim_start_matches("shapewise ").to_owned();
        let mut parts: Vec<&Grammar> = command.get_subcommands().collect();
        parts.retain(|part| part.get_name() != "help");
        if name == "help" {
            continue;
        }
        count += 1;
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let places = command.get_positionals().map(|place| format!(" {place}"));
        let places: String = places.collect();
        text += &format!("| `{name}{}` | {} |\n", places.replace('|', "\\|"), cell(&about));
        for option in command
            .get_arguments()
            .filter(|option| !option.is_hide_set() && !option.is_positional())
        {
            let heading = option.get_help_heading().unwrap_or("Other options");
            let of = options
                .entry((heading, option.to_string(), meaning(option)))
                .or_default();
            of.push(name.clone());
        }
        commands.extend(parts.into_iter().rev());
    }
    let mut last = "";
    for ((heading, option, meaning), commands) in options {
        if heading != last {
            text += &format!("\n## {heading}\n\n| option | meaning | of |\n| --- | --- | --- |\n");
            last = heading;
        }
        let option = option.replace('|', "\\|");
        let of = if commands.len() == count {
            "all".to_owned()
        } else {
            commands.join(", ")
        };
        text += &format!("| `{option}` | {meaning} | {of} |\n");
    }
    text
}

/// The help of an option with its default and its values.
fn meaning(option: &Arg) -> String {
    let help = option.get_long_help().or(option.get_help());
    let mut text = help.map(ToString::to_string).unwrap_or_default();
    let values = option.get_possible_values();
    if option.get_action().takes_values() && !values.is_empty() && !option.is_hide_possible_values_set() {
        let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        text += &format!(": {}", names.join(", "));
    }
    let defaults = option.get_default_values().iter();
    let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
    if option.get_action().takes_values() && !defaults.is_empty() && !option.is_hide_default_value_set() {
        text += &format!(" [default: {}]", defaults.join(" "));
    }
    cell(&text)
}

/// Text inside a cell of a Markdown table.
fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

#[cfg(feature = "dataset")]
#[test]
fn the_reference_of_commands_is_that_of_the_program() {
    holds("docs/cli.md", &commands());
}

/// `docs/gpus.md`: which kernels were learned on which GPU.
#[test]
fn learned_kernels_are_those_of_the_cards() {
    let (gpus, models) = (json("gpus"), json("models"));
    let list = |document: &Value, key: &str| document[key].as_array().unwrap().clone();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut learned: BTreeMap<String, BTreeMap<String, BTreeMap<String, Vec<String>>>> = BTreeMap::new();
    for model in list(&models, "models") {
        let stacks = learned.entry(text(&model, "gpu")).or_default();
        let families = stacks.entry(text(&model, "stack")).or_default();
        let formats = families.entry(text(&model, "family").replace('_', " ")).or_default();
        formats.push(text(&model, "dtype").replace('_', " "));
    }
    let mut page = text_of("docs/gpus.md");
    page.truncate(page.find("\n<!-- ").expect("an introduction") + 1);
    page += "<!-- written by the test: what follows -->\n";
    for (gpu, stacks) in &learned {
        let title = list(&gpus, "gpus")
            .into_iter()
            .find(|known| text(known, "name") == *gpu);
        let title = title.map_or_else(|| "All GPUs".to_owned(), |known| text(&known, "title"));
        page += &format!("\n## {title}: `{gpu}`\n\n| kernel library | learned kernels |\n| --- | --- |\n");
        for (stack, families) in stacks {
            let kernels = families
                .iter()
                .map(|(family, formats)| format!("{family}: {}", formats.join(", ")));
            page += &format!("| {stack} | {} |\n", kernels.collect::<Vec<_>>().join("; "));
        }
    }
    page += "\n## GPUs without learned kernels\n\nTimes are transferred from the GPUs above.\n\n";
    let others = list(&gpus, "gpus")
        .into_iter()
        .filter(|gpu| !learned.contains_key(&text(gpu, "name")));
    let others: Vec<String> = others
        .map(|gpu| format!("{} (`{}`)", text(&gpu, "title"), text(&gpu, "name")))
        .collect();
    page += &format!("{}.\n", others.join(" · "));
    holds("docs/gpus.md", &page);
}

/// Numbers in prose that a command prints.
#[test]
fn counts_in_prose_are_those_of_the_program() {
    let readme = text_of("README.md");
    let flowing = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    for (list, sentence) in [
        ("presets", "one of the {} known by name (`shapewise presets`)"),
        ("gpus", "`shapewise gpus` lists the {} GPUs"),
    ] {
        let count = json(list)[list].as_array().expect(list).len();
        let sentence = sentence.replace("{}", &count.to_string());
        assert!(flowing.contains(&sentence), "README.md lacks: {sentence}");
    }
    let tests = text_of(".ci/run");
    let command = "cargo test --locked";
    assert!(readme.contains(&format!("$ {command}\n")));
    // With the features that are off by default.
    let runs = |line: &str| line.split(" --features ").next() == Some(command);
    assert!(tests.lines().any(runs), ".ci/run: {command}");
    let clone = env!("CARGO_PKG_REPOSITORY");
    assert!(flowing.contains(&format!("clone of {clone},")), "{clone}");
}

/// Links to files of the repository lead somewhere.
#[test]
fn links_of_documents_lead_to_files() {
    let files_of = |folder: &'static str| {
        let files = fs::read_dir(path_of(folder)).unwrap();
        files.map(move |entry| format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy()))
    };
    let docs = files_of("docs").chain(files_of("docs/method"));
    let others = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(str::to_owned);
    for file in docs.chain(others).filter(|file| file.ends_with(".md")) {
        for link in text_of(&file).split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            let path = path_of(&file).parent().unwrap().join(target);
            assert!(path.exists(), "{file} links to {target}");
        }
    }
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
    let old = printed("…\ntwo 2\n…\nfour");
    assert_eq!(
        renewed(&old, "zero\none\ntwo 3\nfour 4\n"),
        printed("…\ntwo 3\n…\nfour 4")
    );
    let text = "```console\n$ a | b\nx\n$ c\n```\n";
    let block = &blocks(text)[0];
    assert_eq!((block[0].at, &*block[0].command), (2, "a | b"));
    assert_eq!((block[0].printed.len(), block[1].printed.len()), (1, 0));
}
