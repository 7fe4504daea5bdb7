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
    ("recompute-granularity", &["recompute"]),
    ("activation-checkpointing", &["recompute"]),
    ("gradient-checkpointing", &["recompute"]),
    ("parameters", &["params"]),
    ("size", &["params"]),
    ("device", &["gpu"]),
    ("gpus", &["gpu", "dp"]),
    ("hardware", &["gpu"]),
    ("port", &["listen"]),
    ("host", &["listen"]),
    ("bind", &["listen"]),
    ("address", &["listen"]),
    ("output", &["out", "csv", "export"]),
    ("json", &["format json"]),
    ("batch", &["batch-count"]),
    ("backward", &["pass backward"]),
    ("head-size", &["head-dim"]),
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

/// Subcommands of `predict` and `sweep` that a size or a name is meant for.
const WHOLE_MODEL: &str = "model";

/// The same error with a better suggestion, where there is one; `args` are those of the command line, without the program.
pub fn improved(mut error: clap::Error, root: &Command, args: &[String]) -> clap::Error {
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let (command, path) = asked(root, args);
    let suggestion = match error.kind() {
        ErrorKind::UnknownArgument => text(&error, ContextKind::InvalidArg)
            .and_then(|wrong| option(root, command, &path, &wrong, args)),
        ErrorKind::InvalidSubcommand => text(&error, ContextKind::InvalidSubcommand)
            .filter(|_| command.find_subcommand(WHOLE_MODEL).is_some())
            .map(
                |name| match OTHER_OPERATORS.iter().find(|(other, _)| *other == name) {
                    Some((_, operator)) => format!("shapewise {path} {operator}"),
                    None => format!("shapewise {path} {WHOLE_MODEL} {name}"),
                },
            ),
        _ => None,
    };
    if let Some(suggestion) = suggestion {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::Suggested);
        // It would show the option that clap took for the one that was meant.
        error.remove(ContextKind::Usage);
        let hint = format!("this may be what you mean: `{suggestion}`");
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![hint.into()]),
        );
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
fn option(
    root: &Command,
    command: &Command,
    path: &str,
    wrong: &str,
    args: &[String],
) -> Option<String> {
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
            let named: Vec<_> = bare
                .map(|(value, size)| format!("-{size} {value}"))
                .collect();
            return Some(format!("shapewise {path} {}", named.join(" ")));
        }
        return (is_count(wrong) && takes("params"))
            .then(|| format!("shapewise {path} --params {wrong}"));
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
