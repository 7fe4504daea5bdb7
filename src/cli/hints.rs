//! What a wrong option or argument was meant to be.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

/// Names that other programs have for options of this one; the first that the command takes is the one.
const OTHER_NAMES: &[(&str, &[&str])] = &[
    ("tensor-parallel", &["tp"]),
    ("tensor-parallel-size", &["tp"]),
    ("tensor-model-parallel-size", &["tp"]),
    ("tensor-parallelism", &["tp"]),
    ("tp-size", &["tp"]),
    ("pipeline-parallel", &["pp"]),
    ("pipeline-parallel-size", &["pp"]),
    ("pipeline-model-parallel-size", &["pp"]),
    ("pp-size", &["pp"]),
    ("virtual-pipeline-model-parallel-size", &["vp"]),
    ("data-parallel", &["dp"]),
    ("data-parallel-size", &["dp"]),
    ("dp-size", &["dp"]),
    ("replicas", &["dp"]),
    ("context-parallel", &["cp"]),
    ("context-parallel-size", &["cp"]),
    ("expert-parallel", &["ep"]),
    ("expert-parallel-size", &["ep"]),
    ("expert-model-parallel-size", &["ep"]),
    ("expert-tensor-parallel-size", &["expert-tp"]),
    ("zero-stage", &["zero"]),
    ("fsdp", &["zero"]),
    ("batch-size", &["batch", "batch-count"]),
    ("micro-batch-size", &["batch"]),
    ("microbatch", &["batch"]),
    ("num-microbatches", &["microbatches"]),
    ("gradient-accumulation-steps", &["microbatches"]),
    ("seq-len", &["seq"]),
    ("seq-length", &["seq"]),
    ("sequence-length", &["seq"]),
    ("max-model-len", &["context", "seq"]),
    ("context-length", &["context", "seq"]),
    ("context-len", &["context", "seq"]),
    ("seq-q", &["seq"]),
    ("seq-kv", &["kv-seq"]),
    ("num-layers", &["layers"]),
    ("num-hidden-layers", &["layers"]),
    ("hidden-size", &["hidden"]),
    ("num-attention-heads", &["heads"]),
    ("num-heads", &["heads"]),
    ("num-key-value-heads", &["kv-heads"]),
    ("num-query-groups", &["kv-heads"]),
    ("ffn-hidden-size", &["d-ff"]),
    ("intermediate-size", &["d-ff"]),
    ("vocab-size", &["vocab"]),
    ("precision", &["dtype"]),
    ("torch-dtype", &["dtype"]),
    ("quantization", &["dtype"]),
    ("quantize", &["recipe", "dtype"]),
    ("load-in-4bit", &["recipe w4a16"]),
    ("load-in-8bit", &["recipe w8a16"]),
    ("fp8", &["dtype fp8"]),
    ("int4", &["recipe w4a16"]),
    ("int8", &["recipe int8"]),
    ("bf16", &["dtype bf16"]),
    ("fp16", &["dtype fp16"]),
    ("offload-optimizer", &["offload optimizer"]),
    ("cpu-offload", &["offload optimizer"]),
    ("recompute-granularity", &["recompute"]),
    ("activation-checkpointing", &["recompute"]),
    ("gradient-checkpointing", &["recompute"]),
    ("lora-r", &["lora"]),
    ("lora-rank", &["lora"]),
    ("use-lora", &["lora"]),
    ("use-peft", &["lora"]),
    ("peft", &["lora"]),
    ("adapter", &["lora"]),
    ("target-modules", &["lora-targets"]),
    ("lora-target", &["lora-targets"]),
    ("lora-target-modules", &["lora-targets"]),
    ("qlora", &["base-dtype nf4"]),
    ("moe", &["active-params"]),
    ("num-experts", &["experts"]),
    ("num-local-experts", &["experts"]),
    ("num-experts-per-tok", &["top-k"]),
    ("parameters", &["params"]),
    ("size", &["params"]),
    ("device", &["gpu"]),
    ("gpu-type", &["gpu"]),
    ("gpus", &["dp", "gpu"]),
    ("num-gpus", &["gpus", "dp"]),
    ("n-gpus", &["gpus", "dp"]),
    ("world-size", &["gpus", "dp"]),
    ("nodes", &["gpus", "dp"]),
    ("active-parameters", &["active-params"]),
    ("causal-mask", &["causal"]),
    ("concurrency", &["batch"]),
    ("max-concurrency", &["batch"]),
    ("max-num-seqs", &["batch"]),
    ("num-requests", &["batch"]),
    ("users", &["batch"]),
    ("input-len", &["context", "seq"]),
    ("input-length", &["context", "seq"]),
    ("isl", &["context", "seq"]),
    ("prompt-len", &["context", "seq"]),
    ("output-len", &["output"]),
    ("output-length", &["output"]),
    ("osl", &["output"]),
    ("max-tokens", &["output"]),
    ("max-new-tokens", &["output"]),
    ("ttft", &["ttft-ms"]),
    ("tpot", &["tpot-ms"]),
    ("itl", &["tpot-ms"]),
    ("itl-ms", &["tpot-ms"]),
    ("global-batch-size", &["global-batch"]),
    ("train-tokens", &["tokens"]),
    ("price", &["usd-per-gpu-hour"]),
    ("cost-per-hour", &["usd-per-gpu-hour"]),
    ("kv-cache-type", &["kv-cache-dtype"]),
    ("hardware", &["gpu"]),
    ("port", &["listen"]),
    ("host", &["listen"]),
    ("bind", &["listen"]),
    ("address", &["listen"]),
    ("addr", &["listen"]),
    ("output", &["out", "csv", "export"]),
    ("json", &["format json"]),
    ("batch", &["batch-count"]),
    ("backward", &["pass backward"]),
    ("head-size", &["head-dim", "heads"]),
    ("is-causal", &["causal"]),
    ("kv-len", &["kv-seq"]),
    ("sliding-window", &["window"]),
    ("model-path", &["model"]),
    ("config", &["framework"]),
];

/// Names that other programs have for operators.
const OTHER_OPERATORS: &[(&str, &str)] = &[
    ("attn", "attention"),
    ("flash", "attention"),
    ("flash-attention", "attention"),
    ("fmha", "attention"),
    ("mha", "attention"),
    ("sdpa", "attention"),
    ("linear", "gemm"),
    ("matmul", "gemm"),
    ("mm", "gemm"),
];

/// What people ask of other programs that no option of this one says: names that the option begins with, and what to do instead.
const NOT_HERE: &[(&[&str], &str)] = &[
    (
        &["dora", "use-dora"],
        "adapters with magnitudes (DoRA) cannot be asked for; `--lora` is a lower bound of their time and memory",
    ),
    (
        &["speculative", "num-speculative", "draft", "mtp", "eagle"],
        "speculative decoding cannot be asked for; divide the time of a step by the tokens that one accepts",
    ),
    (
        &[
            "max-num-batched-tokens",
            "chunked-prefill",
            "enable-chunked-prefill",
            "max-prefill-tokens",
        ],
        "steps that mix prefill and decode cannot be asked for; `predict model --mode prefill --seq TOKENS` says what one chunk takes",
    ),
    (
        &["enable-prefix-caching", "prefix-cach", "cache-hit", "enable-radix"],
        "cached prefixes cannot be asked for; ask for the tokens that are not cached as --seq",
    ),
    (
        &[
            "gpu-memory-utilization",
            "gpu-memory-util",
            "mem-fraction",
            "kv-cache-free",
            "memory-fraction",
        ],
        "engines are planned to fill 90 % of the memory, the default of vLLM; no option changes it",
    ),
    (
        &["moe-capacity", "capacity-factor"],
        "experts are taken to drop no token; no option sets a capacity",
    ),
    (
        &["moe"],
        "the experts of a step are those of its model; `shapewise search --active-params 3B` looks for mixtures of experts",
    ),
    (
        &["verbose", "debug"],
        "results go to standard output and progress to standard error, which --quiet leaves out; no option shows more",
    ),
];

/// Names that other programs have for values of an option, and the option that says it here.
const OTHER_VALUES: &[(&str, &[&str], &str)] = &[
    (
        "mode",
        &["serve", "serving", "inference", "generate", "generation"],
        "--mode decode",
    ),
    ("mode", &["training", "pretrain", "finetune"], "--mode train"),
    ("mode", &["encode", "prompt"], "--mode prefill"),
    (
        "dtype",
        &["int4", "4bit", "q4", "awq", "gptq", "nf4", "w4", "u4"],
        "--recipe w4a16",
    ),
    ("dtype", &["8bit", "q8", "w8"], "--recipe w8a16"),
    (
        "dtype",
        &["mxfp8", "rowwise", "tensorwise", "blockwise"],
        "--dtype fp8 --recipe mxfp8",
    ),
    ("dtype", &["fp4", "mxfp4", "nf4"], "--dtype fp8 --recipe nvfp4"),
    (
        "recipe",
        &["int4", "4bit", "awq", "gptq", "nf4", "q4"],
        "--recipe w4a16",
    ),
    ("recipe", &["8bit", "q8"], "--recipe w8a16"),
    ("recipe", &["fp4", "mxfp4"], "--dtype fp8 --recipe nvfp4"),
    ("recompute", &["activation", "all", "true", "yes"], "--recompute full"),
];

/// Subcommands of `predict` and `sweep` that a size or a name is meant for.
const WHOLE_MODEL: &str = "model";

/// What is said below an error.
enum Hint {
    /// What may have been meant.
    Meant(String),
    /// That nothing here says it.
    Sentence(&'static str),
}

/// The same error with a better suggestion, where there is one; `args` are those of the command line, without the program.
pub fn improved(mut error: clap::Error, root: &Command, args: &[String]) -> clap::Error {
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let (command, path) = asked(root, args);
    let suggestion = match error.kind() {
        ErrorKind::UnknownArgument => text(&error, ContextKind::InvalidArg).and_then(|wrong| {
            let absent = || Some(Hint::Sentence(absent(&wrong)?));
            option(root, command, &path, &wrong, args)
                .map(Hint::Meant)
                .or_else(absent)
        }),
        ErrorKind::InvalidValue => {
            let argument = text(&error, ContextKind::InvalidArg);
            let value = text(&error, ContextKind::InvalidValue);
            argument.zip(value).and_then(|(argument, wrong)| {
                let meant = other_value(&argument, &wrong)?;
                Some(Hint::Meant(meant.to_owned()))
            })
        }
        ErrorKind::InvalidSubcommand => text(&error, ContextKind::InvalidSubcommand)
            .filter(|_| command.find_subcommand(WHOLE_MODEL).is_some())
            .map(|name| match OTHER_OPERATORS.iter().find(|(other, _)| *other == name) {
                Some((_, operator)) => Hint::Meant(format!("shapewise {path} {operator}")),
                None => Hint::Meant(format!("shapewise {path} {WHOLE_MODEL} {name}")),
            }),
        _ => None,
    };
    if let Some(suggestion) = suggestion {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::Suggested);
        // It would show the option that clap took for the one that was meant.
        error.remove(ContextKind::Usage);
        error.remove(ContextKind::SuggestedValue);
        let hint = match suggestion {
            Hint::Meant(meant) => format!("this may be what you mean: `{meant}`"),
            Hint::Sentence(sentence) => sentence.to_owned(),
        };
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

/// The command that the arguments name, and its path below the program.
fn asked<'a>(root: &'a Command, args: &[String]) -> (&'a Command, String) {
    let (mut command, mut path) = (root, Vec::new());
    for arg in args {
        let Some(next) = command.find_subcommand(arg) else {
            break;
        };
        command = next;
        path.push(arg.as_str());
    }
    (command, path.join(" "))
}

/// What an unknown option or a value too many was meant to be.
fn option(root: &Command, command: &Command, path: &str, wrong: &str, args: &[String]) -> Option<String> {
    let shorts: Vec<char> = command.get_arguments().filter_map(Arg::get_short).collect();
    let takes = |long: &str| {
        let long = long.split(' ').next();
        let mut arguments = command.get_arguments().chain(root.get_arguments());
        arguments.any(|arg| arg.get_long() == long)
    };
    let Some(name) = wrong.strip_prefix("--") else {
        // A bare number of parameters after `search`.
        let is_count = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let sizes = ['m', 'n', 'k'];
        if is_count(wrong) && sizes.iter().all(|size| shorts.contains(size)) {
            // The sizes of a GEMM in their order.
            let bare = args.iter().filter(|arg| is_count(arg)).zip(sizes);
            let named: Vec<_> = bare.map(|(value, size)| format!("-{size} {value}")).collect();
            return Some(format!("shapewise {path} {}", named.join(" ")));
        }
        return (is_count(wrong) && takes("params")).then(|| format!("shapewise {path} --params {wrong}"));
    };
    let name = name.split('=').next()?.replace('_', "-");
    if takes(&name) {
        return Some(format!("--{name}"));
    }
    let mut letters = name.chars();
    if let (Some(letter), None) = (letters.next(), letters.next())
        && shorts.contains(&letter)
    {
        return Some(format!("-{letter}"));
    }
    let known = OTHER_NAMES.iter().find(|(other, _)| *other == name)?;
    let meant = known.1.iter().find(|long| takes(long))?;
    Some(format!("--{meant}"))
}

/// What to do instead of an option that this program does not have.
fn absent(wrong: &str) -> Option<&'static str> {
    let name = wrong.trim_start_matches('-').replace('_', "-");
    let begins = |names: &[&str]| names.iter().any(|other| name.starts_with(other));
    let known = NOT_HERE.iter().find(|(names, _)| begins(names));
    known.map(|(_, sentence)| *sentence)
}

/// What a value of this option, as clap shows it (`--mode <MODE>`), says in other words.
fn other_value(argument: &str, wrong: &str) -> Option<&'static str> {
    let name = argument.trim_start_matches('-').split(' ').next()?;
    let wrong = wrong.to_lowercase().replace('_', "-");
    let known = OTHER_VALUES.iter();
    let mut known = known.filter(|(option, values, _)| *option == name && values.contains(&&*wrong));
    known.next().map(|(.., meant)| *meant)
}
