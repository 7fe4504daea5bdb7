//! What reviewers broke once: each test fails without what mends it.

use crate::cli::{data, json, number, parse, program, refused, say};
use std::process::Command;

#[test]
fn an_operator_that_no_machine_holds_is_wrong_usage() {
    let wide = "predict attention --batch 1 --heads 32 --kv-heads 1 --seq 4096 --head-dim";
    refused(
        &format!("{wide} 1048576"),
        2,
        &["`head_dim` is 1048576", "at most 4096"],
    );
    json(&format!("{wide} 4096"));
    let long = "predict attention --batch 4294967295 --heads 32 --seq 1048576 --head-dim 128";
    refused(long, 2, &["at most 1 PiB"]);
    refused("predict gemm -m 4294967295 -n 4294967295 -k 64", 2, &["at most 1 PiB"]);
}

/// The low end of what people ask about is no faster than the hardware, and its interval is that of a prediction.
#[test]
fn long_attention_is_transferred_with_an_interval_of_use() {
    for (gpu, seq) in [("h100", 131_072), ("h100", 262_144), ("v100", 131_072)] {
        let line = format!(
            "predict attention --batch 1 --heads 32 --kv-heads 8 --seq {seq} --head-dim 128 --causal --gpu {gpu} --dtype fp16"
        );
        let answer = json(&line);
        let [low, time, high] = ["low_us", "time_us", "high_us"].map(|key| number(&answer, key));
        assert!(
            low <= time && time <= high && high < 4.0 * low,
            "{line}: {low} to {high}"
        );
        // But for the rounding of three numbers; a low end may be the peak itself.
        let most = 1.0 + 4.0 * f64::EPSILON;
        assert!(number(&answer, "peak_fraction") * time / low <= most, "{line}");
        assert_eq!(answer["tier"], "transferred", "{line}");
    }
}

#[test]
fn a_share_of_the_peak_counts_what_a_causal_mask_keeps() {
    // 1.83e15 FLOPs of the layers, whose head sees one row, and 4.50e15 of causal attention in 9.8 s.
    let long = "predict model llama-3-8b --gpu h100 --mode prefill --batch 1 --seq 131072";
    let (step, text) = (json(long), data(long));
    let seconds = number(&step, "time_us") * 1e-6;
    assert!((number(&step, "model_flops") / 6.33e15 - 1.0).abs() < 0.005, "{text}");
    assert!((number(&step, "mfu") * seconds * 989.4e12 / 6.33e15 - 1.0).abs() < 0.006);
    assert!(number(&step, "mfu_full_attention") > 1.0, "{text}");
    assert!(
        text.contains("(model FLOPs: the causal half of attention, no recomputation"),
        "{text}"
    );
    let usual = "predict model llama-3-8b";
    let text = data(usual);
    assert!(!text.contains("\nHFU ") && text.contains("as published with all of it"));
    let recomputed = format!("{usual} --recompute full");
    assert!(data(&recomputed).contains("\nHFU "));
    let recomputed = json(&recomputed);
    let [mfu, hfu] = ["mfu", "hfu"].map(|key| number(&recomputed, key));
    assert!(hfu > mfu, "recomputation is executed: {hfu} {mfu}");
    for gpu in ["h200", "mi300x", "b200"] {
        for mode in ["train", "prefill"] {
            let line = format!("predict model qwen2.5-3b --gpu {gpu} --mode {mode} --batch 1 --seq 262144");
            let step = json(&line);
            let [mfu, hfu] = ["mfu", "hfu"].map(|key| number(&step, key));
            assert!(mfu < 1.0 && hfu < 1.0, "{line}: {mfu} {hfu}");
        }
    }
    let cached = data("predict gemm -m 4096 -n 4096 -k 128 --gpu l40s --wide");
    assert!(
        cached.contains("of the bandwidth of the memory (operands that stay in the L2 cache are not read from it)"),
        "{cached}"
    );
    assert!(!data("predict gemm -m 4096 -n 4096 -k 4096").contains("L2"));
}

/// Steps that users measured and published: huggingface/trl issue 6845, huggingface/accelerate issue 4184,
/// tenstorrent/tt-inference-server issues 143, 340, 356 and 394, QwenLM/Qwen3 issue 1536, sgl-project/sglang issue 2643,
/// AlexsJones/llmfit pull request 1046.
#[test]
fn steps_that_users_published_lie_inside() {
    let long = "--gpu h100 --zero 3 --batch 1 --recompute full --framework fsdp2";
    let r1 = "deepseek-v3 --mode decode --dtype fp8 --recipe fp8_block --context 192";
    for (options, milliseconds) in [
        (format!("qwen3-8b --cp 8 --seq 1048576 {long}"), [364e3, 373e3]),
        (format!("qwen3-32b --cp 8 --seq 1048576 {long}"), [1295e3; 2]),
        (format!("qwen3-8b --cp 16 --seq 2097152 {long}"), [696e3; 2]),
        (format!("{r1} --gpu h100 --tp 16 --batch 1 --framework vllm"), [25.9; 2]),
        (
            format!("{r1} --gpu h100 --tp 16 --batch 32 --framework vllm"),
            [44.7; 2],
        ),
        (
            format!("{r1} --gpu h100 --tp 16 --batch 1 --framework sglang"),
            [23.1; 2],
        ),
        (
            format!("{r1} --gpu h100 --tp 16 --batch 32 --framework sglang"),
            [32.5; 2],
        ),
        (
            format!("{r1} --gpu h200 --tp 8 --batch 1 --framework unknown-server"),
            [33.3; 2],
        ),
        (
            "qwen3-0.6b --gpu a100 --mode decode --batch 1 --context 192".to_owned(),
            [4.2; 2],
        ),
        (
            "qwen3-14b --gpu a100 --mode decode --batch 1 --recipe w4a16 --context 16100 --enforce-eager".to_owned(),
            [20.6; 2],
        ),
        (
            "qwen2.5-72b --gpu h100 --mode decode --batch 1 --tp 2 --context 192".to_owned(),
            [30.9; 2],
        ),
        (
            "qwen3-14b --gpu a100 --mode decode --batch 1 --context 192".to_owned(),
            [24.0, 28.3],
        ),
        (
            "qwen3-8b --gpu rtx4090 --mode decode --batch 1 --context 300".to_owned(),
            [17.0; 2],
        ),
        (
            "qwen3-4b --gpu rtx4090 --mode decode --batch 1 --context 192".to_owned(),
            [10.5; 2],
        ),
    ] {
        let step = json(&format!("predict model {options}"));
        let [low, high] = ["low_us", "high_us"].map(|key| number(&step, key) * 1e-3);
        let inside = milliseconds.map(|measured| (low..=high).contains(&measured));
        assert_eq!(
            inside, [true; 2],
            "{options}: {low} to {high} ms, measured {milliseconds:?}"
        );
    }
    let eager = "predict model llama-3-8b --framework kernels --mode decode --enforce-eager";
    refused(eager, 2, &["`enforce_eager` is with kernels"]);
}

/// Errors of a fit are shown only under steps that its runs cover.
#[test]
fn a_step_quotes_runs_of_its_own_generation_kind_and_length() {
    for (options, part, widened) in [
        (
            "llama-3-8b --gpu h100",
            "runs      169 of training_steps on h100, up to 8,192 tokens",
            false,
        ),
        (
            "llama-3-8b --gpu rtx4090",
            "runs      no run on this GPU was compared",
            true,
        ),
        (
            "llama-3-8b --gpu mi300x",
            "runs      no run on this GPU was compared",
            true,
        ),
        (
            "llama-3-8b --gpu h100 --seq 131072 --batch 1",
            "runs      no run of such a length was compared",
            true,
        ),
        (
            "nemotron-h-8b --gpu a100",
            "runs      no run of a model with such layers was compared",
            true,
        ),
    ] {
        let line = format!("predict model {options}");
        let (text, step) = (data(&line), json(&line));
        assert!(text.contains(part), "{text}");
        assert_eq!(step["framework"]["fit"].is_null(), widened, "{line}");
        let said = step["framework"]["evidence"].as_str().unwrap();
        assert!(part.ends_with(&said[..part.len() - 10]), "{said}");
        let half_width = (number(&step, "high_us") / number(&step, "time_us")).ln();
        assert!(!widened || half_width > 0.2, "{line}: {half_width}");
    }
}

/// The rows of a step are its time, each row is its count times one call, and no kernel takes less than its launch.
#[test]
fn the_rows_of_a_step_add_up() {
    for gpu in ["h100", "h200", "b200", "a100", "rtx4090", "mi300x", "l4"] {
        for options in [
            "llama-3-8b --mode decode --batch 16 --context 4096",
            "qwen3-0.6b --mode decode --batch 1 --context 192",
            "deepseek-v2-lite --mode decode --batch 4 --context 1000 --tp 2",
            "llama-3-8b --mode prefill --batch 1 --seq 4096",
            "llama-3-8b --tp 2 --pp 4 --microbatches 8 --batch 1 --sequence-parallel --dp 2 --zero 1",
            "mixtral-8x7b --dp 8 --zero 3 --ep 8 --batch 1 --framework fsdp2",
            "gpt3-2.7b --batch 1 --framework unknown --offload optimizer",
        ] {
            let line = format!("predict model {options} --gpu {gpu}");
            let step = json(&line);
            let rows = |key: &str| step[key].as_array().unwrap().clone();
            let mut sum = 0.0;
            for row in rows("lines").iter().chain(&rows("rest")) {
                let [each, count, time] = ["each_us", "count", "time_us"].map(|key| number(row, key));
                assert!((each * count - time).abs() <= 1e-9 * time.abs(), "{line}: {row}");
                sum += time;
                let kernel = row.get("op").is_some_and(|op| op["kind"] != "collective");
                assert!(!kernel || each >= 1.499, "{line}: {row}");
            }
            let time = number(&step, "time_us");
            assert!((sum / time - 1.0).abs() < 1e-9, "{line}: {sum} {time}");
            let shares = rows("caveats");
            let shares: Vec<f64> = shares.iter().map(|one| number(one, "time_share")).collect();
            assert!(shares.is_sorted_by(|a, b| a >= b), "{line}: {shares:?}");
        }
    }
}

/// Sweeps say what the memory does not hold and where the number of a step comes from, in every form.
#[test]
fn a_sweep_marks_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let sweep = "sweep model llama-3-8b --gpu h100 --mode decode --context 32768 --batch 1:33:8";
    let svg = path("points.svg");
    let line = format!("{sweep} --format csv --plot {}", svg.display());
    let outcome = crate::cli::say(&line);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let points = json(sweep)["points"].as_array().unwrap().clone();
    let large = points.iter().filter(|point| point["fits"] == false).count();
    assert!(0 < large && large < points.len(), "{large} of {}", points.len());
    let drawn = std::fs::read_to_string(svg).unwrap();
    assert!(drawn.contains(&format!("does not fit ({large} of {})", points.len())));
    assert!(
        !drawn.contains("is a multiple of"),
        "alignment of a batch is nothing to a decoding step"
    );
    let mut lines = outcome.out.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    let column = |name: &str| heading.iter().position(|one| *one == name).expect(name);
    for (cells, point) in lines.zip(&points) {
        assert_eq!(cells[column("fits")], point["fits"].to_string());
        assert_eq!(cells[column("tier")], point["tier"]);
        for tier in ["measured", "learned", "transferred", "roofline"] {
            let share: f64 = cells[column(&format!("tier_shares.{tier}"))].parse().unwrap();
            assert_eq!(share, number(&point["tier_shares"], tier));
        }
    }
}

/// The shell's limit on the size of files is an error of writing like a full disk.
#[cfg(all(unix, feature = "dataset"))]
#[test]
fn a_limit_on_the_size_of_files_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let script = r#"ulimit -f 20; exec "$PROGRAM" measure --device scripted --plan quick --out "$OUT""#;
    let output = Command::new("bash")
        .args(["-c", script])
        .env("PROGRAM", program())
        .env("OUT", &out)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let sentence = said.lines().last().unwrap_or_default();
    assert!(
        sentence.starts_with("error: ") && sentence.contains("File too large"),
        "{said}"
    );
}

#[cfg(feature = "dataset")]
#[test]
fn a_merge_takes_what_is_asked_for_from_the_files_that_have_it() {
    use shapewise::dataset::{Row, read, write};
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (one, other, out) = (path("one.parquet"), path("other.parquet"), path("out.parquet"));
    let rows = crate::made_up::rows("b200");
    let moved = rows.iter().map(|row| Row {
        stack: "other 2".into(),
        ..row.clone()
    });
    write(one.as_ref(), &rows).unwrap();
    write(other.as_ref(), &moved.collect::<Vec<_>>()).unwrap();
    let import = |stack: &str| {
        let line = [
            "import", "native", &one, &other, "--out", &out, "--force", "--stack", stack,
        ];
        crate::cli::run(&line)
    };
    let merged = import("other 2");
    assert_eq!(merged.code, 0, "{}", merged.err);
    let kept = read(out.as_ref()).unwrap();
    assert_eq!(kept.len(), rows.len());
    assert!(kept.iter().all(|row| &*row.stack == "other 2"));
    let none = import("third 3");
    assert_eq!(none.code, 1);
    for part in [&*one, &*other, "no row is left"] {
        assert!(none.err.contains(part), "{}", none.err);
    }
}

/// What all rows of a table in CSV share is stated once.
#[cfg(feature = "dataset")]
#[test]
fn gpu_stack_source_and_licence_of_a_csv_are_options() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (mine, out) = (path("mine.csv"), path("out.parquet"));
    let table = "family,dtype,layout,batch,m,n,k,time_us\ngemm,bf16,tn,1,4096,4096,4096,220\n";
    std::fs::write(&mine, table).unwrap();
    let missing = crate::cli::run(&["import", "native", &mine, "--out", &out]);
    assert_eq!(missing.code, 1);
    for part in [
        "`gpu`",
        "`stack`",
        "`source`",
        "`licence`",
        "may state theirs for all rows",
    ] {
        assert!(missing.err.contains(part), "{}", missing.err);
    }
    let stated = [
        "--gpu",
        "NVIDIA H100 80GB HBM3",
        "--stack",
        "torch 2.9",
        "--source",
        "a script",
        "--licence",
        "MIT",
    ];
    let line = ["import", "native", &mine, "--out", &out];
    let imported = crate::cli::run(&[&line[..], &stated[..]].concat());
    assert_eq!(imported.code, 0, "{}", imported.err);
    let rows = shapewise::dataset::read(out.as_ref()).unwrap();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    let origin = &row.origin;
    assert_eq!((&*row.gpu, &*row.stack), ("h100", "torch 2.9"));
    assert_eq!((&*origin.source, &*origin.licence), ("a script", "MIT"));
    // Where rows are read only, what they are of need not be known; the family is that of the columns.
    std::fs::write(&mine, "m,n,k,time_us\n4096,4096,4096,220\n").unwrap();
    let read = format!("--data {mine} --gpu h100 --format json");
    let sizes = "gemm -m 4096 -n 4096 -k 4096";
    for (line, key, value) in [
        (format!("predict {sizes} {read}"), "/tier", "\"measured\""),
        (format!("evaluate {read}"), "/groups/0/n", "1"),
        (format!("evaluate --stack cublas {read}"), "/groups/0/n", "1"),
    ] {
        let answer = say(&line);
        assert_eq!(answer.code, 0, "{line}: {}", answer.err);
        let document = parse(&line, &answer.out);
        let found = document.pointer(key).map(ToString::to_string);
        assert_eq!(found.as_deref(), Some(value), "{document}");
    }
    let train = format!("train --data {mine} --gpu h100 --out {}", path("model"));
    let train: Vec<&str> = train.split(' ').collect();
    let refused = crate::cli::run(&train);
    assert!(
        refused.err.contains("nor are there `source`, `licence`;"),
        "{}",
        refused.err
    );
    let stated = ["--stack", "torch 2.9", "--source", "a script", "--licence", "MIT"];
    let one = crate::cli::run(&[&train[..], &stated[..]].concat());
    assert!(one.err.contains("torch 2.9"), "{}", one.err);
    let line = [
        "import",
        "cookbook",
        &mine,
        "--out",
        &out,
        "--force",
        "--licence",
        "MIT",
    ];
    let refused = crate::cli::run(&line);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("tables of cookbook have their own"),
        "{}",
        refused.err
    );
}

/// A model of one's own that has not the usual format says so and how to ask it.
#[cfg(feature = "dataset")]
#[test]
fn a_model_without_the_format_says_how_to_ask_it() {
    use shapewise::ops::Dtype;
    use shapewise::predict::library;
    use shapewise::regressor::artifact::Artifact;
    let folder = tempfile::tempdir().unwrap();
    let own = library::find("h200").unwrap().unwrap();
    let kept = own.card.submodels.iter().zip(&own.weights);
    let fp8 = kept.filter(|(submodel, _)| submodel.key.variant.dtype() == Some(Dtype::Fp8));
    let (submodels, weights) = fp8.map(|(a, b)| (a.clone(), b.clone())).unzip();
    let mut mine = Artifact {
        card: own.card.clone(),
        weights,
    };
    mine.card.submodels = submodels;
    mine.card.name = "mine".to_owned();
    mine.save(folder.path()).unwrap();
    let model = folder.path().display();
    for ask in ["predict gemm -m 4096 -n 4096 -k 4096", "predict model gpt2"] {
        let line = format!("{ask} --model {model} --wide");
        let text = data(&format!("{line} --dtype bf16"));
        assert!(
            text.contains("knows nothing of bf16") && text.contains("dtype fp8 asks it"),
            "{text}"
        );
        assert!(!data(&line).contains("asks it"), "{text}");
        // What it was timed in is what is meant.
        assert_eq!(data(&line), data(&format!("{line} --dtype fp8")));
    }
    // So is the framework that runs its only stack.
    for submodel in &mut mine.card.submodels {
        submodel.key.stack = "burn-flex 0.22".to_owned();
    }
    mine.save(folder.path()).unwrap();
    let step = format!("predict model gpt2 --model {model}");
    let text = data(&step);
    assert!(text.contains("\nframework burn") && text.contains(", fp8,"), "{text}");
    assert_eq!(
        json(&step)["time_us"],
        json(&format!("{step} --framework burn"))["time_us"]
    );
}

/// What is shipped is whole.
#[test]
fn the_weights_that_are_shipped_are_those_of_their_cards() {
    let mut opened = 0;
    for name in shapewise::predict::library::names() {
        let artifact = shapewise::regressor::artifact::Artifact::open(&crate::files::model(name));
        assert_eq!(artifact.unwrap().card.name, name);
        opened += 1;
    }
    assert!(opened > 10, "{opened}");
}

/// What a user cannot know is said where it matters.
#[test]
fn a_step_that_wastes_says_what_to_change() {
    let piped = "predict model llama-3-70b --gpu h100 --tp 8 --pp 4 --zero 1";
    let text = data(piped);
    assert!(
        text.contains("with micro-batches 1: `--microbatches 32` fills"),
        "{text}"
    );
    let filled = data(&format!("{piped} --microbatches 64"));
    assert!(!filled.contains("stages idle"), "{filled}");
    let selective = data("predict model llama-3-8b --gpu h100 --recompute selective");
    assert!(selective.contains("it frees no memory"), "{selective}");
    assert!(
        selective.contains("DOES NOT FIT beside driver and libraries"),
        "{selective}"
    );
    // The options that it names are those under which it fits.
    let remedy = selective.lines().find_map(|line| line.strip_prefix("remedy    "));
    let (options, _) = remedy.unwrap().split_once(" fits: ").unwrap();
    let options = options.trim_matches('`');
    let line = format!("predict model llama-3-8b --gpu h100 --recompute selective {options}");
    let line = line.replace("--recompute selective --recompute", "--recompute");
    let step = json(&line);
    assert_eq!(step["memory"]["fits"], true, "{line}");
    assert!(step["memory"].get("remedy").is_none());
    let too_large = json("predict model llama-3-8b --gpu h100 --recompute selective");
    let remedy = &too_large["memory"]["remedy"];
    assert_eq!(remedy["workload"], step["workload"], "{remedy}");
    assert_eq!(remedy["memory_bytes"], step["memory"]["memory_bytes"]);
    refused(
        "sweep model llama-3-8b --vocab 32000:",
        2,
        &["START:END, START:END:STEP"],
    );
}

/// Attention of one query more to the same cache is no faster, at the border to a single query, too: an answer by the nets of prompts was
/// 3 to 8 times that of one query (32 heads of 128, 8,192 keys), and from there on fell.
#[test]
fn more_queries_of_a_cache_take_no_less() {
    let lengths = [1, 2, 3, 4, 8, 16, 32, 48, 64, 65, 96, 128, 256];
    for (gpu, heads, keys, batch) in [
        ("h200", 32, 8192, 1),
        ("b200", 64, 4096, 64),
        ("a100", 32, 2048, 16),
        ("l40s", 32, 2048, 16),
        ("rtx4090", 64, 4096, 64),
    ] {
        let line = format!(
            "predict attention --gpu {gpu} --batch {batch} --heads {heads} --kv-heads 8 --head-dim 128 --kv-seq {keys} --causal --seq"
        );
        let times = lengths.map(|queries| number(&json(&format!("{line} {queries}")), "time_us"));
        assert!(times[1] < 1.1 * times[0], "{line}: {times:?}");
        let falls = times.windows(2).find(|pair| pair[1] < 0.98 * pair[0]);
        assert_eq!(falls, None, "{line}: {times:?}");
    }
}

/// Longer chunks are no faster an operation than the whole prompt: decoding kernels answered with a rate that none has.
#[test]
fn a_chunk_of_a_prompt_is_no_faster_than_its_share_of_it() {
    for (gpu, heads, keys) in [("b200", 64, 16_384), ("h100", 32, 8192), ("a100", 32, 8192)] {
        let line = format!(
            "predict attention --gpu {gpu} --batch 1 --heads {heads} --kv-heads 8 --head-dim 128 --kv-seq {keys} --causal --seq"
        );
        let rate = |queries: u64| number(&json(&format!("{line} {queries}")), "tflops_per_s");
        let [chunk, whole] = [1024, keys].map(rate);
        assert!(chunk < 1.01 * whole, "{line}: {chunk} {whole}");
    }
    let named = |queries: u64| {
        let line = "predict attention --batch 1 --heads 32 --kv-heads 8 --head-dim 128 --kv-seq 8192 --causal --seq";
        let answer = json(&format!("{line} {queries}"));
        answer["basis"]["family"].as_str().unwrap().to_owned()
    };
    assert_eq!([4, 96, 8192].map(named), ["decode", "decode", "prefill"]);
}

#[test]
fn a_plan_names_the_drafts_and_the_cached_tokens_that_were_asked() {
    let drafts = "--gpus 8 --mode decode --speculate 3 --acceptance 0.5 --top 1";
    let text = data(&format!("plan llama-3-70b {drafts}"));
    assert!(text.contains("3 drafts by eagle, 0.5 of them kept\n"), "{text}");
    let compared = data("compare llama-3-70b --gpu h200,h100 --gpus 8 --mode decode --speculate 2");
    assert!(compared.contains("0.62 of them kept (assumed)"), "{compared}");
    let cached = "plan llama-3-8b --gpus 1 --mode prefill --seq 8192 --cached-tokens 7168 --top 1";
    assert!(data(cached).contains("8,192 tokens, 7,168 of a prompt cached"));
    assert_eq!(json(cached)["cached_tokens"], 7168);
    refused(
        "plan llama-3-8b --gpus 1 --mode prefill --speculate 2",
        2,
        &["`speculate` is 2", "0 but in decode"],
    );
    data("plan gpt2 --gpus 1 --mode decode --top 1");
    data("predict model gpt2 --mode decode --speculate 3");
}
