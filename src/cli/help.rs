//! How help is arranged: groups of options, which of them `-h` leaves to `--help`, and examples.

use crate::arch::Preset;
use crate::cli::environment::{self, GPU_VARIABLE};
use crate::framework::Framework;
use crate::gpu::Gpu;
use crate::predict::library;
use crate::request::{GROUPS, Group};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};

/// The commands whose options are grouped: those that predict.
const GROUPED: [&str; 6] = ["predict", "search", "plan", "compare", "check", "sweep"];

/// Common options of other commands that are rare in one, which has many.
const RARE: [(&str, &str); 4] = [
    (
        "search",
        "layers hidden heads kv_heads head_dim d_ff vocab pp dp dtype zero recompute context lora prompt output ttft_ms tpot_ms usd_per_gpu_hour",
    ),
    ("plan", "tp pp zero recompute lora"),
    ("compare", "tp pp zero recompute lora"),
    ("check", "pp dp context lora"),
];

/// Two examples of each command; a test runs them.
const EXAMPLES: [(&str, [&str; 2]); 26] = [
    (
        "predict gemm",
        [
            "-m 4096 -n 11008 -k 4096 --gpu h100",
            "-m 8192 -n 8192 -k 8192 --gpu b200 --dtype fp8 --format json",
        ],
    ),
    (
        "predict attention",
        [
            "--batch 4 --heads 32 --kv-heads 8 --head-dim 128 --seq 8192 --causal",
            "--batch 64 --heads 32 --head-dim 128 --seq 1 --kv-seq 4096",
        ],
    ),
    (
        "predict model",
        [
            "llama-3-70b --gpu h200 --tp 8 --mode decode --batch 32 --context 4096",
            "gpt3-2.7b --gpu a100 --batch 4 --seq 2048 --plot roofline.svg",
        ],
    ),
    (
        "predict batch",
        ["requests.jsonl --gpu h100", "requests.csv --format csv"],
    ),
    (
        "predict graph",
        ["model.onnx --dim batch=8 --gpu h100", "operators.jsonl"],
    ),
    (
        "search",
        [
            "--like gpt3-2.7b --gpu a100 --top 3",
            "--params 1B --gpu h100 --seq 4096 --plot front.svg",
        ],
    ),
    (
        "plan",
        [
            "llama-3-70b --gpu h100 --gpus 512 --global-batch 16M --tokens 1T",
            "llama-3-70b --mode decode --gpu h200 --gpus 4 --output 512 --concurrency 50",
        ],
    ),
    (
        "compare",
        [
            "llama-3-8b --gpus 8 --gpu h100,h200,b200",
            "llama-3-8b,qwen3-8b --mode decode --gpus 1 --gpu l40s,h100 --tpot-ms 50",
        ],
    ),
    ("check", ["gpt3-2.7b --gpu h100", "config.json --strict --format sarif"]),
    (
        "check gemm",
        [
            "-m 4096 -n 11006 -k 4096",
            "-m 4096 -n 11006 -k 4096 --dtype fp8 --no-advice",
        ],
    ),
    (
        "check attention",
        [
            "--batch 4 --heads 32 --head-dim 80 --seq 2048",
            "--batch 4 --heads 32 --head-dim 80 --seq 2048 --gpu a100",
        ],
    ),
    (
        "sweep gemm",
        [
            "-m 2304 -n 1536:6144:64 -k 4096 --gpu a100",
            "-m 4096 -n 4096,8192,11008 -k 4096 --format csv",
        ],
    ),
    (
        "sweep attention",
        [
            "--batch 4 --heads 32 --head-dim 64:256:32 --seq 2048",
            "--batch 1 --heads 32 --head-dim 128 --seq 1024:65536:x2 --causal",
        ],
    ),
    (
        "sweep model",
        [
            "gpt3-2.7b --gpu a100 --heads 20,32,40",
            "llama-3-8b --mode decode --context 4096 --batch 1:256:x2 --plot batch.svg",
        ],
    ),
    ("serve", ["", "--listen 0.0.0.0:8080 --cors https://example.org"]),
    ("mcp", ["", "--quiet"]),
    (
        "measure",
        [
            "--device cuda:0 --plan quick --out own.parquet",
            "--device cuda:0 --plan gaps --budget 90s --out gaps.parquet",
        ],
    ),
    (
        "train",
        [
            "--data own.parquet --out models/own",
            "--data own.parquet --out models/own --keep-out 10%",
        ],
    ),
    ("evaluate", ["--data own.parquet", "--runs runs.csv --framework vllm"]),
    (
        "calibrate",
        [
            "--runs runs.csv --out own.toml",
            "--runs runs.csv --framework megatron --out own.toml",
        ],
    ),
    (
        "import",
        [
            "aiconfigurator h200_sxm/gemm_perf.txt --out gemm.parquet",
            "native shard-1.parquet shard-2.parquet --out all.parquet",
        ],
    ),
    ("gpus", ["", "h200"]),
    ("models", ["", "--format json"]),
    ("presets", ["", "--format json"]),
    (
        "completions",
        ["bash > ~/.local/share/bash-completion/completions/shapewise", "zsh"],
    ),
    ("manual", ["--out man", "--out man --force"]),
];

/// The program with its help arranged, and the GPU of the environment as a default.
pub fn arranged(root: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").action(clap::ArgAction::Help);
    let help = help.help("Print the common options (-h) or all of them (--help)");
    let version = Arg::new("version")
        .short('V')
        .long("version")
        .action(clap::ArgAction::Version);
    let root = root.disable_help_flag(true).disable_version_flag(true);
    let root = root
        .arg(help.global(true))
        .arg(version.help("Print the version").global(true));
    let root = grouped(root, "", &GROUPS[6..]);
    root.mut_subcommands(|command| {
        let predicts = GROUPED.contains(&command.get_name());
        let path = command.get_name().to_owned();
        of_command(command, &path, if predicts { &GROUPS } else { &[] })
    })
}

fn of_command(command: Command, path: &str, groups: &[Group]) -> Command {
    let command = match groups.is_empty() {
        true => command,
        false => command.mut_args(|arg| with_default(arg, path)),
    };
    let rare = RARE.iter().find(|(name, _)| *name == path);
    let command = grouped(command.mut_args(shortened), rare.map_or("", |(_, rare)| rare), groups);
    let command = command.mut_subcommands(|part| {
        let path = format!("{path} {}", part.get_name());
        of_command(part, &path, groups)
    });
    match EXAMPLES.iter().find(|(name, _)| *name == path) {
        Some((_, examples)) => {
            let lines = examples.map(|example| format!("\n  shapewise {path} {example}").trim_end().to_owned());
            command.after_help(format!("Examples:{}", lines.concat()))
        }
        None => command,
    }
}

/// The help of `--gpu` with what its default is.
fn with_default(arg: Arg, path: &str) -> Arg {
    if arg.get_id() != "gpu" {
        return arg;
    }
    if path == "compare" {
        return arg.help("The GPUs, such as h100,h200,b200; `shapewise gpus` lists them [default: all]");
    }
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.replace("[default: ", &format!("[default: that of {GPU_VARIABLE}, else "));
    environment::with_default(arg.help(help))
}

/// The program for the completion of a shell: names that are built in are values.
pub fn completed(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let gpus = Gpu::all().iter().map(|gpu| gpu.name.as_str());
        let names: Vec<&'static str> = match arg.get_id().as_str() {
            "gpu" | "also_gpus" | "name" => gpus.collect(),
            "architecture" | "others" | "like" => Preset::all()
                .iter()
                .map(|preset| preset.architecture.name.as_str())
                .collect(),
            "framework" => Framework::all()
                .iter()
                .map(|framework| framework.name.as_str())
                .collect(),
            "model" | "base" => library::names().collect(),
            _ => return arg,
        };
        arg.default_value(None::<&str>)
            .value_parser(PossibleValuesParser::new(names))
    });
    command.mut_subcommands(completed)
}

/// The options in their groups, which help shows in the order of the options that have them.
fn grouped(command: Command, rare_here: &str, groups: &[Group]) -> Command {
    let place = |arg: &Arg| {
        let named = |ids: &str| ids.split(' ').position(|id| id == arg.get_id().as_str());
        let mut groups = groups.iter().enumerate().filter(|_| !arg.is_positional());
        groups.find_map(|(at, (_, common, rare))| match (named(common), named(rare)) {
            (Some(place), _) => Some((at, place, named(rare_here).is_some())),
            (None, place) => Some((at, common.len() + place?, true)),
        })
    };
    let mut sorted: Vec<Arg> = command.get_arguments().cloned().collect();
    sorted.sort_by_cached_key(place);
    let mut sorted = sorted.into_iter();
    command.mut_args(|_| {
        let arg = sorted.next().expect("as many as there were");
        match place(&arg) {
            Some((group, order, is_rare)) => arg
                .help_heading(groups[group].0)
                .display_order(order)
                .hide_short_help(is_rare),
            None => arg,
        }
    })
}

/// The option with the first clause of its help and its default for `-h`, all of it for `--help`.
fn shortened(arg: Arg) -> Arg {
    let Some(long) = arg.get_help().map(ToString::to_string) else {
        return arg;
    };
    let (text, default) = match long.find(" [default") {
        Some(at) => (&long[..at], long[at..].split_inclusive(']').next().unwrap_or_default()),
        None => (&*long, ""),
    };
    let ends = [": ", "; ", ". "].map(|end| text.find(end).unwrap_or(text.len()));
    let short = format!("{}{default}", &text[..ends[0].min(ends[1]).min(ends[2])]);
    arg.help(short).long_help(long)
}
