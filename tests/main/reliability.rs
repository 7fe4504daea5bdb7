//! What reviewers broke once: each test fails without what mends it.

use crate::cli::{data, json, number, program, refused};
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
    refused(
        "predict gemm -m 4294967295 -n 4294967295 -k 64",
        2,
        &["at most 1 PiB"],
    );
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
        assert!(
            number(&answer, "peak_fraction") * time / low <= most,
            "{line}"
        );
        assert_eq!(answer["tier"], "transferred", "{line}");
    }
}

#[test]
fn a_share_above_all_of_the_peak_or_the_bandwidth_says_why() {
    let long = "predict model qwen2.5-3b --mode prefill --seq 131072";
    let (step, text) = (json(long), data(long));
    assert!(
        number(&step, "mfu") > 1.0 && number(&step, "hfu") < 0.9,
        "{text}"
    );
    assert!(text.contains("\nHFU "), "{text}");
    let usual = "predict model llama-3-8b";
    assert!(!data(usual).contains("\nHFU "));
    let recomputed = json(&format!("{usual} --recompute full"));
    let [mfu, hfu] = ["mfu", "hfu"].map(|key| number(&recomputed, key));
    assert!(hfu > mfu, "recomputation is executed: {hfu} {mfu}");
    let cached = data("predict gemm -m 4096 -n 4096 -k 128 --gpu l40s");
    assert!(
        cached.contains("of the bandwidth of the memory (operands that stay in the L2 cache are not read from it)"),
        "{cached}"
    );
    assert!(!data("predict gemm -m 4096 -n 4096 -k 4096").contains("L2"));
}

/// Sweeps say what the memory does not hold and where the number of a step comes from, in every form.
#[test]
fn a_sweep_marks_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let sweep = "sweep model llama-3-8b --gpu h100 --mode decode --context 32768 --batch 1:33:8";
    let (csv, svg) = (path("points.csv"), path("points.svg"));
    let line = format!("{sweep} --csv {} --plot {}", csv.display(), svg.display());
    let outcome = crate::cli::say(&line);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let points = json(sweep)["points"].as_array().unwrap().clone();
    let large = points.iter().filter(|point| point["fits"] == false).count();
    assert!(
        0 < large && large < points.len(),
        "{large} of {}",
        points.len()
    );
    let drawn = std::fs::read_to_string(svg).unwrap();
    assert!(drawn.contains(&format!("does not fit ({large} of {})", points.len())));
    assert!(
        !drawn.contains("is a multiple of"),
        "alignment of a batch is nothing to a decoding step"
    );
    let text = std::fs::read_to_string(csv).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    let column = |name: &str| heading.iter().position(|one| *one == name).expect(name);
    assert!(
        !heading.contains(&"tier"),
        "a step has no single tier: {heading:?}"
    );
    for (cells, point) in lines.zip(&points) {
        assert_eq!(cells[column("fits")], point["fits"].to_string());
        for tier in ["measured", "learned", "transferred", "roofline"] {
            let share: f64 = cells[column(&format!("{tier}_share"))].parse().unwrap();
            assert_eq!(share, number(&point["tier_shares"], tier));
        }
    }
}

/// The shell's limit on the size of files is an error of writing like a full disk.
#[cfg(all(unix, feature = "measure"))]
#[test]
fn a_limit_on_the_size_of_files_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let script =
        r#"ulimit -f 20; exec "$PROGRAM" measure --device scripted --plan quick --out "$OUT""#;
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
    let (one, other, out) = (
        path("one.parquet"),
        path("other.parquet"),
        path("out.parquet"),
    );
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
        let line = format!("{ask} --model {model}");
        let text = data(&line);
        assert!(
            text.contains("note") && text.contains("--dtype fp8 asks it"),
            "{text}"
        );
        let asked = data(&format!("{line} --dtype fp8"));
        assert!(!asked.contains("asks it"), "{asked}");
    }
}

/// What is shipped is whole.
#[test]
fn the_weights_that_are_shipped_are_those_of_their_cards() {
    let models = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let mut opened = 0;
    for name in shapewise::predict::library::names() {
        let artifact = shapewise::regressor::artifact::Artifact::open(&models.join(name));
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
        text.contains("with micro-batches 1: more of them, --microbatches"),
        "{text}"
    );
    let filled = data(&format!("{piped} --microbatches 64"));
    assert!(!filled.contains("more of them, --microbatches"), "{filled}");
    let selective = data("predict model llama-3-8b --gpu h100 --recompute selective");
    assert!(selective.contains("it frees no memory"), "{selective}");
    assert!(
        selective.contains("DOES NOT FIT, 2 GB being kept free"),
        "{selective}"
    );
    // The options that it names are those under which it fits.
    let remedy = selective
        .lines()
        .find_map(|line| line.strip_prefix("remedy    "));
    let (options, _) = remedy.unwrap().split_once(" fits: ").unwrap();
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
