//! Runs of our own schema: written, read back and refused.

use super::runs::{counts, numbers, read, texts};
use crate::arch::{
    Acceptance, Architecture, BaseDtype, Loss, Offload, Optimizer, Preset, Recipe, Recompute, Targets, Workload,
};
use crate::dataset::runs::{
    Measure, Publisher, Run, Serving, columns_markdown, read_csv_text, read_runs, read_runs_of, write_runs,
};
use crate::gpu::{Gpu, GpuCatalog};
use crate::ops::Dtype;
use crate::units::{BytesPerSecond, Seconds};
use std::borrow::Cow;

/// A run of each of the forms that the schema has: training steps, a model of one's own, a served token.
fn own_runs() -> Vec<Run> {
    let llama = &Preset::find("llama-3-8b").unwrap().architecture;
    let gpu = |name| Gpu::find(name).unwrap();
    let own = Architecture {
        name: "mine, with 4 layers".to_owned(),
        layers: 4,
        ..llama.clone()
    };
    let train = Workload {
        dtype: Dtype::Fp8,
        recipe: Recipe::Mxfp8,
        tp: 2,
        pp: 2,
        dp: 4,
        zero: 1,
        recompute: Recompute::Full,
        recompute_layers: 3,
        sequence_parallel: true,
        microbatches: 8,
        ..Workload::train(2, 4096)
    };
    let tuned = Workload {
        lora: 16,
        lora_targets: Targets::ATTENTION,
        base_dtype: BaseDtype::Nf4,
        optimizer: Optimizer::AdamW8bit,
        loss: Loss::Fused,
        offload: Offload::Activations,
        ..Workload::train(1, 2048)
    };
    let seconds = Seconds::from_secs;
    let step = |gpu, arch, work, time| Run::measured(Cow::Borrowed(gpu), arch, work, seconds(time));
    vec![
        Run {
            software: "my trainer, 1.2".to_owned(),
            network: Some(BytesPerSecond::from_bytes_per_sec(12.5e9)),
            unfitted: Some("a \"first\" try".to_owned()),
            ..step(gpu("b200"), llama.clone(), train, 1.0 / 3.0)
        },
        step(gpu("h100"), own, Workload::prefill(1, 77), 0.002),
        step(gpu("rtx4090"), llama.clone(), tuned, 1.25),
        Run {
            measure: Measure::Tpot,
            serving: Some(Serving {
                concurrency: 16,
                prompt: 900,
                output: 180,
            }),
            configuration: "the same server".to_owned(),
            ..step(
                gpu("h100"),
                llama.clone(),
                Workload::decode(16, 990)
                    .speculating(llama, Some(3), None, Acceptance::new(0.85))
                    .unwrap(),
                0.02,
            )
        },
    ]
}

/// All of a run that a file holds.
fn held(run: &Run) -> impl PartialEq + std::fmt::Debug + use<> {
    let time = (run.time.secs(), run.measure, run.serving, run.network);
    let texts = (run.software.clone(), run.configuration.clone(), run.unfitted.clone());
    (
        run.gpu.name.clone(),
        run.architecture.clone(),
        run.workload,
        time,
        texts,
    )
}

#[test]
fn own_runs_come_back_from_parquet_and_csv_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let runs = own_runs();
    for name in ["runs.parquet", "runs.CSV"] {
        let path = folder.path().join(name);
        write_runs(&path, &runs).unwrap();
        let back = read_runs(&[&path], &GpuCatalog::built_in()).unwrap().runs;
        let publisher = |run: &Run| run.publisher == Publisher::Native;
        assert!(back.iter().all(publisher));
        assert_eq!(
            back.iter().map(held).collect::<Vec<_>>(),
            runs.iter().map(held).collect::<Vec<_>>(),
            "{name}"
        );
    }
}

#[test]
fn a_row_needs_few_cells_and_may_name_a_config_beside_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let shape = r#"{"model_type": "gpt2", "n_layer": 2, "n_embd": 128, "n_head": 4, "vocab_size": 1024,
        "n_positions": 256}"#;
    std::fs::write(folder.path().join("tiny.json"), shape).unwrap();
    let path = folder.path().join("runs.csv");
    std::fs::write(
        &path,
        "model, gpu, mode, batch, seq, context, seconds\ntiny.json, A100, train, 4, 64,, 0.5\nqwen3-32b, h100, decode, 8,, 100, 2e-2\n",
    )
    .unwrap();
    let runs = read_runs(&[&path], &GpuCatalog::built_in()).unwrap().runs;
    let [step, token] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!((step.architecture.layers, step.architecture.hidden), (2, 128));
    assert_eq!(step.workload, Workload::train(4, 64));
    assert_eq!(step.configuration, "tiny a100 bf16");
    assert_eq!(token.workload, Workload::decode(8, 100));
    assert_eq!((step.time.secs(), token.time.secs()), (0.5, 0.02));
}

#[test]
fn what_a_server_holds_follows_from_its_load() {
    let heading = "model,gpu,mode,batch,seconds,measure,concurrency,prompt,output";
    for (row, workload) in [
        (
            "llama-3-8b,h100,decode,16,0.01,tpot,16,2048,256",
            Workload::decode(16, 2176),
        ),
        (
            "llama-3-8b,h100,prefill,1,0.2,ttft,16,2048,256",
            Workload::prefill(1, 2048),
        ),
    ] {
        let runs = read_csv_text(&format!("{heading}\n{row}\n")).unwrap();
        assert_eq!(runs[0].workload, workload);
    }
}

#[test]
fn a_bad_cell_of_an_own_run_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.csv");
    for (columns, row, parts) in [
        ("shoe_size", "42", ["`shoe_size` is not known", "seconds"]),
        ("tp,tp", "1,1", ["`tp` occurs twice", "once"]),
        ("tp", "0", ["row 1: `tp` is `0`", "a whole number from 1"]),
        ("tp", "two", ["row 1: `tp` is `two`", "a whole number from 1"]),
        ("tp", "7", ["row 1: `tp` is 7", "a divisor of heads = 32"]),
        ("dtype", "int3", ["row 1: `dtype` is `int3`", "bf16"]),
        ("lora", "-1", ["row 1: `lora` is `-1`", "a whole number from 0"]),
        (
            "lora_targets",
            "knees",
            ["row 1: `lora_targets` is `knees`", "all-linear"],
        ),
        (
            "measure",
            "ttft",
            ["row 1: `mode` is train", "prefill, where a first token"],
        ),
        ("sequence_parallel", "maybe", ["is `maybe`", "true or false"]),
        ("network_bytes_per_s", "-1", ["is `-1`", "a number above 0"]),
    ] {
        let needed = "model,gpu,mode,batch,seq,seconds";
        let text = format!("{needed},{columns}\nllama-3-8b,h100,train,1,512,0.5,{row}\n");
        std::fs::write(&path, text).unwrap();
        let message = read_runs(&[&path], &GpuCatalog::built_in()).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{message}");
        }
        assert!(message.contains("runs.csv"), "{message}");
    }
    for (text, part) in [
        ("gpu\n", "the column `model` is missing"),
        (
            "model,gpu,mode,batch,seq,seconds\nmine,h100,train,1,512,1\n",
            "`model` is `mine`; allowed: a preset",
        ),
        (
            "model,gpu,mode,batch,seq,seconds\n{},h100,train,1,512,1\n",
            "`model` is `{}`",
        ),
        (
            "model,gpu,mode,batch,seq,seconds\ngpt2,h1000,train,1,512,1\n",
            "`gpu` is `h1000`",
        ),
        (
            "model,gpu,mode,batch,seq,seconds\ngpt2,h100,train,1,,1\n",
            "`seq` is empty",
        ),
        (
            "model,gpu,mode,batch,seq,seconds,measure\ngpt2,h100,prefill,1,512,1,ttft\n",
            "`concurrency` is empty",
        ),
        (
            "model,gpu,mode,batch,context,seconds,measure\ngpt2,h100,decode,1,512,1,ttft\n",
            "`mode` is decode; allowed: prefill, where a first token was timed",
        ),
        (
            "model,gpu,mode,batch,seq,seconds,measure\ngpt2,h100,prefill,1,512,1,tpot\n",
            "`mode` is prefill; allowed: decode, where a further token was timed",
        ),
        ("model,gpu,mode,batch,seq,seconds\ngpt2,h100\n", "as many cells a row"),
    ] {
        std::fs::write(&path, text).unwrap();
        let message = read_runs(&[&path], &GpuCatalog::built_in()).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    std::fs::write(&path, "model,gpu\ngpt2,h100\n").unwrap();
    let message = read_runs_of(&[&path], Some(Publisher::Vtrain), &GpuCatalog::built_in()).unwrap_err();
    assert!(message.to_string().contains("is missing"), "{message}");
}

#[test]
fn numbers_of_an_own_table_may_be_of_either_kind() {
    let runs = read(vec![
        ("model", texts(["llama-3-8b"])),
        ("gpu", texts(["h100"])),
        ("mode", texts(["train"])),
        ("batch", numbers([Some(2.0)])),
        ("seq", counts([512])),
        ("tp", numbers([None])),
        ("seconds", counts([3])),
    ]);
    assert_eq!(runs.runs[0].workload, Workload::train(2, 512));
    assert_eq!(runs.runs[0].time.secs(), 3.0);
}

#[test]
fn every_column_of_own_runs_is_documented() {
    let document = include_str!("../../../docs/runs.md");
    let table = columns_markdown();
    assert!(document.contains(&table), "docs/runs.md must hold\n{table}");
}
