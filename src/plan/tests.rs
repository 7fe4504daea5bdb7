//! Plans on built-in GPUs and published models.

use super::*;
use crate::arch::{Mode, Preset};
use crate::gpu::Gpu;
use crate::ops::Dtype;

fn model(name: &str) -> &'static Architecture {
    &Preset::find(name).unwrap().architecture
}

fn predictor(gpu: &str) -> Predictor {
    Predictor::new(Gpu::find(gpu).unwrap(), None).unwrap()
}

fn query(gpus: u64, workload: Workload) -> Query {
    Query {
        gpus,
        global_batch: 1024,
        workload,
        kept: Vec::new(),
        zero: None,
        recompute: None,
        offloads: OFFLOAD_LAST.to_vec(),
        memory_share: memory_share(),
        top: 10,
    }
}

fn training(gpus: u64) -> Query {
    query(gpus, Workload::train(1, 4096))
}

#[test]
fn every_layout_is_legal_uses_all_gpus_and_the_whole_batch_and_fits() {
    let (predictor, arch, query) = (predictor("h100"), model("llama-3-70b"), training(64));
    let plan = train(&predictor, arch, &query).unwrap();
    let capacity = predictor.gpu().memory();
    for tried in &plan.tried.layouts {
        let work = &tried.workload;
        work.validate(arch).unwrap();
        assert_eq!(work.gpus(), 64);
        assert_eq!(work.batch * work.microbatches * work.dp, 1024, "{work}");
        assert_eq!(memory_use(arch, work).unwrap().total(), tried.memory);
        assert!(tried.memory <= capacity * plan.tried.memory_share, "{work}");
        assert!(
            work.vp == 1 || work.microbatches.is_multiple_of(work.pp),
            "{work}"
        );
    }
    let times: Vec<f64> = plan
        .tried
        .layouts
        .iter()
        .map(|tried| tried.time.secs())
        .collect();
    assert!(times.is_sorted() && times.len() > 100, "{}", times.len());
    for (layout, time) in plan.layouts.iter().zip(times) {
        assert_eq!(layout.step.time.secs(), time);
        assert!(layout.step.fits);
    }
    assert!(plan.layouts[0].tied && plan.layouts.len() == 10);
}

#[test]
fn host_memory_is_used_only_where_nothing_fits_without_it_or_where_it_is_asked_for() {
    let (predictor, arch) = (predictor("h100"), model("gpt3-13b"));
    let offloads = |gpus, offloads: &[Offload]| {
        let query = Query {
            global_batch: 64,
            offloads: offloads.to_vec(),
            ..query(gpus, Workload::train(1, 2048))
        };
        let layouts = train(&predictor, arch, &query)?.tried.layouts;
        let first = layouts[0].workload.offload;
        assert!(layouts.iter().all(|tried| tried.workload.offload == first));
        Ok::<_, Error>(first)
    };
    // 16 bytes a parameter are 206 GB.
    assert!(offloads(1, &[Offload::None]).unwrap_err().is_infeasible());
    assert_eq!(offloads(1, &OFFLOAD_LAST).unwrap(), Offload::Optimizer);
    assert_eq!(offloads(8, &OFFLOAD_LAST).unwrap(), Offload::None);
    assert_eq!(offloads(8, &[Offload::All]).unwrap(), Offload::All);
}

#[test]
fn large_models_reach_the_utilisation_of_published_runs() {
    let predictor = predictor("h100");
    for (name, gpus) in [
        ("llama-3-70b", 512),
        ("llama-3.1-405b", 1024),
        ("llama-3-8b", 8),
    ] {
        let plan = train(&predictor, model(name), &training(gpus)).unwrap();
        let mfu = plan.layouts[0].step.mfu;
        assert!((0.40..=0.62).contains(&mfu), "{name} on {gpus}: {mfu}");
    }
}

#[test]
fn what_is_kept_is_kept_and_a_framework_runs_its_own_zero_stages() {
    let arch = model("llama-3-8b");
    let kept = Query {
        kept: vec![
            (Dimension::Tp, 2),
            (Dimension::Pp, 2),
            (Dimension::Batch, 2),
        ],
        zero: Some(1),
        recompute: Some(Recompute::Full),
        ..training(16)
    };
    for tried in tried(&predictor("h100"), arch, &kept).unwrap().layouts {
        let work = tried.workload;
        assert_eq!((work.tp, work.pp, work.batch, work.zero), (2, 2, 2, 1));
        assert_eq!(work.recompute, Recompute::Full);
    }
    let fsdp = predictor("h100").with_framework_named("fsdp2");
    for tried in tried(&fsdp, arch, &training(16)).unwrap().layouts {
        let work = tried.workload;
        assert!(work.zero >= 2 || work.dp * work.cp == 1, "{work}");
    }
}

#[test]
fn experts_are_spread_and_latent_projections_recomputed() {
    let query = Query {
        workload: Workload {
            dtype: Dtype::Fp8,
            ..Workload::train(1, 4096)
        },
        ..training(256)
    };
    let plan = train(&predictor("gb200"), model("deepseek-v3"), &query).unwrap();
    let work = plan.layouts[0].workload;
    assert!(work.ep > 1 && work.expert_tp == 1, "{work}");
    let again = plan.tried.layouts.iter();
    let latent = again.filter(|tried| tried.workload.recompute == Recompute::LatentUp);
    assert!(latent.count() > 0);
}

#[test]
fn what_cannot_be_planned_says_why() {
    let predictor = predictor("a100");
    let refused = |name, query: &Query| {
        let refused = train(&predictor, model(name), query).unwrap_err();
        (refused.is_infeasible(), refused.to_string())
    };
    let (infeasible, message) = refused("llama-3.1-405b", &training(8));
    assert!(
        infeasible && message.contains("the least takes"),
        "{message}"
    );
    let odd = Query {
        global_batch: 7,
        ..training(64)
    };
    let (infeasible, message) = refused(
        "gpt3-175b",
        &Query {
            workload: Workload::train(1, 2048),
            kept: vec![(Dimension::Tp, 1), (Dimension::Pp, 1)],
            ..odd
        },
    );
    assert!(infeasible && message.contains("is legal"), "{message}");
    let (infeasible, message) = refused("llama-3-8b", &training(0));
    assert!(!infeasible && message.contains("`gpus` is 0"), "{message}");
}

#[test]
fn engines_keep_their_limits_and_slower_limits_give_more_tokens() {
    let (predictor, arch) = (predictor("h100"), model("llama-3-70b"));
    let served = |token_ms: Option<f64>| {
        let limits = Limits {
            prompt: 2048,
            output: 256,
            first_token: None,
            token: token_ms.map(|ms| Seconds::from_secs(ms * 1e-3)),
        };
        let query = query(16, Workload::decode(1, 2048));
        serve(
            &predictor,
            arch,
            &Query {
                memory_share: 0.9,
                ..query
            },
            &limits,
        )
    };
    let [quick, slow, free] = [Some(25.0), Some(60.0), None].map(|ms| served(ms).unwrap());
    for engine in &quick.engines {
        assert!(engine.token.unwrap().millis() <= 25.0);
        assert_eq!(engine.workload.gpus(), 16);
        assert!(engine.memory <= predictor.gpu().memory() * 0.9);
    }
    let rate = |engines: &Engines| engines.engines[0].tokens_per_s;
    assert!(rate(&quick) < rate(&slow) && rate(&slow) <= rate(&free));
    let refused = served(Some(0.1)).unwrap_err();
    assert!(
        refused.to_string().contains("per further token"),
        "{refused}"
    );
    let prompts = Limits {
        prompt: 2048,
        output: 0,
        first_token: Some(Seconds::from_secs(1.0)),
        token: None,
    };
    let prefill = query(8, Workload::prefill(1, 2048));
    let prefill = serve(&predictor, arch, &prefill, &prompts).unwrap();
    let best = &prefill.engines[0];
    assert!(best.token.is_none() && best.workload.mode == Mode::Prefill);
    assert!(best.first_token.secs() <= 1.0 && best.tokens_per_s > 1000.0);
}
