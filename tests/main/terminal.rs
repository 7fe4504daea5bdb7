//! Results and help as people see them.

use crate::cli::{data, program};
use std::process::Command;

/// Columns of a result where standard output is no terminal.
pub(crate) const WIDTH: usize = 100;

/// Commands that print tables or long lines, one of each kind.
const TABLES: [&str; 20] = [
    "predict gemm -m 4096 -n 11006 -k 4096 --gpu h100",
    "predict attention --batch 4 --heads 32 --head-dim 128 --seq 2048 --gpu h100 --causal",
    "predict model llama-3-8b --gpu h100 --mode decode --batch 16 --context 4096",
    "predict model deepseek-v3 --gpu h200 --mode decode --batch 64 --context 4096 --tp 8 --dtype fp8",
    "predict model gpt3-2.7b --gpu a100 --batch 64",
    "check gpt3-2.7b --gpu a100",
    "check gpt3-2.7b llama-3-8b --gpu a100",
    "check gemm -m 4096 -n 11006 -k 4096 --gpu h100",
    "plan llama-3-70b --gpu h100 --gpus 64",
    "plan llama-3-8b --gpu h200 --gpus 8:32 --tokens 15T",
    "plan llama-3-70b --gpu h200 --gpus 4 --mode decode --seq 2048 --output 512 --batch 50 --dtype fp8 --ttft-ms 2000",
    "compare llama-3-8b --gpus 8 --gpu h100,h200,rtx4090",
    "compare llama-3-8b --gpus 8 --gpu h100,h200 --mode decode --seq 2048 --output 256 --usd-per-gpu-hour 2",
    "sweep model llama-3-8b --gpu h200 --mode decode --batch 32 --context 4096 --kv-heads 8,32",
    "sweep gemm -m 2304 -k 4096 -n 1536:6144:64 --gpu h200",
    "search --like gpt3-2.7b --gpu a100 --top 3",
    "gpus",
    "gpus h200",
    "models",
    "presets",
];

#[test]
fn no_line_is_wider_than_the_terminal() {
    for line in TABLES {
        let text = data(line);
        for shown in text.lines() {
            assert!(shown.chars().count() <= WIDTH, "{line}: {shown}");
        }
        assert!(!text.contains('\u{1f}'), "{line}");
        let wide = data(&format!("{line} --wide"));
        assert!(!wide.contains("--wide shows"), "{line}");
        // What is left out is in the wide table, and named.
        for hidden in text.lines().filter_map(|shown| shown.strip_prefix("--wide shows ")) {
            let (_, names) = hidden.split_once(": ").expect("names of columns");
            for name in names.split(", ") {
                assert!(wide.contains(name), "{line}: {name}");
            }
        }
    }
    let cut = TABLES.iter().filter(|line| data(line).contains("--wide shows"));
    assert!(cut.count() >= 5, "tables leave columns out");
}

#[test]
fn every_answer_is_a_table_for_other_programs_and_for_markdown() {
    for line in TABLES {
        let text = data(&format!("{line} --format csv"));
        let mut table = csv::Reader::from_reader(text.as_bytes());
        let heading = table.headers().expect(line).clone();
        let rows: Vec<_> = table.records().map(|row| row.expect(line)).collect();
        assert!(!rows.is_empty() && heading.len() > 1, "{line}: {text}");
        // What JSON has as an object is a cell for each of its values.
        assert!(
            !rows.iter().flatten().any(|cell| cell.starts_with('{')),
            "{line}: {text}"
        );
        let page = data(&format!("{line} --format md"));
        let fences = page.lines().filter(|line| line.starts_with("```")).count();
        assert_eq!(fences % 2, 0, "{line}: {page}");
        let mut is_code = false;
        for shown in page.lines() {
            is_code ^= shown.starts_with("```");
            assert!(
                is_code || shown.is_empty() || shown.starts_with("```") || shown.starts_with("| "),
                "{line}: {shown}"
            );
        }
        assert!(!page.contains(['\u{1}', '\u{4}', '\u{1f}']), "{line}");
    }
    let points = data("sweep gemm -m 2304 -k 4096 -n 1536:6144:64 --gpu h200 --format csv");
    assert!(
        points.starts_with("value,alignment,time_us,low_us,high_us,tflops_per_s,"),
        "{points}"
    );
    assert_eq!(points.lines().count(), 74);
    let both = data("check gpt3-2.7b llama-3-8b --gpu a100 --format csv");
    let of = |name: &str| both.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!([of("name,"), of("gpt3-2.7b,")], [1, of("llama-3-8b,")], "{both}");
}

/// The paths of all commands, as the reference lists them.
fn commands() -> Vec<String> {
    let manual = crate::documents::commands();
    let rows = manual.lines().take_while(|line| !line.starts_with("## "));
    let names = rows.filter_map(|row| row.strip_prefix("| `")?.split(['`', '<', '[']).next());
    names.map(|name| name.trim().to_owned()).collect()
}

#[test]
fn short_help_fits_a_page_and_long_help_has_every_option() {
    let names = commands();
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        let [short, long] = ["-h", "--help"].map(|flag| data(&format!("{name} {flag}")));
        assert!(short.lines().count() <= 60, "{name}\n{short}");
        let options = |text: &str| {
            // Deeper lines are text.
            let lines = text.lines().filter(|line| !line.starts_with("       "));
            let lines = lines.map(str::trim_start).filter(|line| line.starts_with('-'));
            let lines = lines.map(|line| line.split(&[' ', ','][..]).next().unwrap_or_default().to_owned());
            lines.collect::<Vec<_>>()
        };
        let all = options(&long);
        assert!(options(&short).iter().all(|option| all.contains(option)), "{name}");
        let predicts = ["predict", "search", "plan", "compare", "check", "sweep"];
        if predicts.contains(&name.split(' ').next().unwrap_or_default()) {
            assert!(
                !long.contains("\nOptions:"),
                "{name} has an option without a group\n{long}"
            );
        }
        if name.starts_with("plan") || name == "search" {
            assert!(all.len() > 30 && options(&short).len() < all.len(), "{name}");
            for group in ["Workload:", "Parallelism:", "Memory:", "Hardware:", "Output:"] {
                assert!(long.contains(group), "{name}: {group}");
            }
        }
    }
}

#[test]
fn examples_of_help_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = program();
    let path = path.parent().unwrap().display();
    let path = format!("{path}:{}", std::env::var("PATH").unwrap());
    for name in commands() {
        let help = data(&format!("{name} -h"));
        let Some((_, examples)) = help.split_once("Examples:\n") else {
            assert!(["predict", "sweep"].contains(&&*name), "{name} has no example");
            continue;
        };
        assert_eq!(examples.lines().count(), 2, "{name}: {examples}");
        for example in examples.lines().map(str::trim) {
            // These would wait for requests, or time a GPU.
            let only_read = ["serve", "measure"].contains(&&*name);
            let line = if only_read {
                format!("{example} --help")
            } else {
                example.to_owned()
            };
            let line = line.replace("~/.local/share/bash-completion/completions/", "");
            let output = Command::new("sh")
                .args(["-c", &line])
                .current_dir(folder.path())
                .env("PATH", &path)
                .output();
            let output = output.unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            let lacks_a_file = output.status.code() == Some(1) && error.contains("No such file");
            assert!(output.status.success() || lacks_a_file, "{line}: {error}");
        }
    }
}

#[test]
fn colours_are_for_terminals_and_quiet_leaves_out_notes() {
    let run = |line: &str, name: &str| {
        let mut command = Command::new(program());
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(variable);
        }
        let output = command.args(line.split(' ')).env(name, "1").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}");
        (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let broken = "\u{1b}[31mBROKEN\u{1b}[0m";
    let line = "check gpt3-2.7b --gpu a100";
    let (plain, _) = run(line, "NONE");
    assert!(plain.contains("BROKEN") && !plain.contains('\u{1b}'));
    for (options, variable, coloured) in [
        ("--color always", "NO_COLOR", true),
        ("--color never", "CLICOLOR_FORCE", false),
        ("--color auto", "CLICOLOR_FORCE", true),
        ("--color auto", "NO_COLOR", false),
    ] {
        let (text, _) = run(&format!("{line} {options}"), variable);
        assert_eq!(text.contains(broken), coloured, "{options} {variable}");
        let codes = ["31", "32", "33", "0"].map(|code| format!("\u{1b}[{code}m"));
        assert_eq!(codes.iter().fold(text, |text, code| text.replace(code, "")), plain);
    }
    let document = run(&format!("{line} --format json --color always"), "NONE").0;
    assert!(!document.contains('\u{1b}'));

    let folder = tempfile::tempdir().unwrap();
    for (options, said) in [("", true), (" -q", false)] {
        let name = folder.path().join(format!("plot{said}.svg"));
        let line = format!("predict model gpt2 --plot {}{options}", name.display());
        assert_eq!(run(&line, "NONE").1.contains("wrote"), said);
        assert!(name.exists());
    }
}

#[test]
fn the_environment_names_the_gpu_where_nothing_else_does() {
    let run = |line: &str, gpu: &str| {
        let mut command = Command::new(program());
        command.args(line.split(' ')).env("SHAPEWISE_GPU", gpu);
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let gemm = "predict gemm -m 4096 -n 4096 -k 4096";
    for (line, gpu, on, note) in [
        (gemm, "b200", "(b200)", "--gpu b200 by SHAPEWISE_GPU\n"),
        (gemm, "", "(h200)", ""),
        ("predict gemm -m 4096 -n 4096 -k 4096 -q", "b200", "(b200)", ""),
        ("predict gemm -m 4096 -n 4096 -k 4096 --gpu a100", "b200", "(a100)", ""),
        (
            "predict gemm -m 4096 -n 4096 -k 4096 --model a100",
            "b200",
            "(b200)",
            "--gpu b200 by SHAPEWISE_GPU\n",
        ),
    ] {
        let (code, text, error) = run(line, gpu);
        assert_eq!((code, &*error), (Some(0), note), "{line} {gpu}");
        assert!(text.contains(on), "{line} {gpu}: {text}");
    }
    let (code, _, error) = run(&format!("{gemm} -q"), "h1oo");
    assert_eq!(code, Some(2));
    assert!(
        error.contains("SHAPEWISE_GPU: `gpu` is `h1oo`") && error.contains("nearest h100"),
        "{error}"
    );
    // A model of one's own says which GPU it is of.
    let (code, _, error) = run("predict gemm -m 1 -n 1 -k 1 --model ./nowhere", "b200");
    assert!(code != Some(0) && !error.contains("SHAPEWISE_GPU"), "{code:?} {error}");
    assert!(
        data("plan --help")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains("else h200]")
    );
    assert!(data("compare --help").contains("[default: all]"));
}

#[test]
fn shells_complete_names_that_are_built_in() {
    for shell in ["bash", "zsh", "fish"] {
        let script = data(&format!("completions {shell}"));
        for name in ["rtx4090", "llama-3-70b", "megatron"] {
            assert!(script.contains(name), "{shell} completes no {name}");
        }
    }
}
