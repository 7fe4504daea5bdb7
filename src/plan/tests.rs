//! Plans on built-in GPUs and published models.

use super::*;
use crate::arch::{Mode, Preset};
use crate::gpu::Gpu;
use crate::ops::Dtype;
use crate::predict::step::estimate_step;

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
        assert_eq!(predictor.memory_use(arch, work).unwrap().total(), tried.memory);
        assert!(tried.memory <= capacity * plan.tried.memory_share, "{work}");
        assert!(work.vp == 1 || work.microbatches.is_multiple_of(work.pp), "{work}");
    }
    let times: Vec<f64> = plan.tried.layouts.iter().map(|tried| tried.time.secs()).collect();
    assert!(times.is_sorted() && times.len() > 100, "{}", times.len());
    assert!(plan.tried.fitting <= plan.tried.legal && plan.tried.fitting <= times.len());
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
    for (name, gpus) in [("llama-3-70b", 512), ("llama-3.1-405b", 1024), ("llama-3-8b", 8)] {
        let plan = train(&predictor, model(name), &training(gpus)).unwrap();
        let mfu = plan.layouts[0].step.mfu_full_attention;
        assert!((0.40..=0.62).contains(&mfu), "{name} on {gpus}: {mfu}");
    }
}

#[test]
fn what_is_kept_is_kept_and_a_framework_runs_its_own_zero_stages() {
    let arch = model("llama-3-8b");
    let kept = Query {
        kept: vec![(Dimension::Tp, 2), (Dimension::Pp, 2), (Dimension::Batch, 2)],
        zero: Some(1),
        recompute: Some(Recompute::Full),
        ..training(16)
    };
    for tried in tried(&predictor("h100"), arch, &kept).unwrap().layouts {
        let work = tried.workload;
        assert_eq!((work.tp, work.pp, work.batch, work.zero), (2, 2, 2, 1));
        assert_eq!(work.recompute, Recompute::Full);
    }
    let fsdp1 = predictor("h100").with_framework_named("fsdp1");
    let long = Query {
        global_batch: 8,
        ..query(8, Workload::train(1, 20480))
    };
    let layouts = tried(&fsdp1, model("qwen2.5-32b"), &long).unwrap().layouts;
    for tried in &layouts {
        let work = tried.workload;
        assert_eq!((work.tp, work.cp, work.pp, work.vp), (1, 1, 1, 1), "{work}");
    }
    assert!(layouts.iter().any(|tried| tried.workload.zero == 3));
    let kept = Query {
        kept: vec![(Dimension::Tp, 4)],
        ..long
    };
    let refused = tried(&fsdp1, model("qwen2.5-32b"), &kept).unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains("`tp` is 4; allowed: 1 under framework fsdp1"),
        "{message}"
    );
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
    let (h100, predictor) = (predictor("h100"), predictor("a100"));
    let refused = |name, query: &Query| {
        let refused = train(&predictor, model(name), query).unwrap_err();
        (refused.is_infeasible(), refused.to_string())
    };
    let (infeasible, message) = refused("llama-3.1-405b", &training(8));
    assert!(infeasible && message.contains("the least takes"), "{message}");
    assert!(!message.contains("`loss`"), "{message}");
    // The logits of a million tokens alone are what does not fit.
    let long = Query {
        global_batch: 1,
        ..query(8, Workload::train(1, 1 << 20))
    };
    let message = train(&h100, model("qwen3-8b"), &long).unwrap_err().to_string();
    assert!(message.contains("; `loss` chunked or fused, more GPUs"), "{message}");
    let chunked = Workload {
        loss: Loss::Chunked,
        ..long.workload
    };
    assert!(
        train(
            &h100,
            model("qwen3-8b"),
            &Query {
                workload: chunked,
                ..long
            }
        )
        .is_ok()
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
    // Two context-parallel ranks and as many replicas as sequences.
    let near = message.ends_with("; a `global_batch` of 32 sequences (65536 tokens) or 14 GPUs would");
    assert!(near, "{message}");
    let (infeasible, message) = refused("llama-3-8b", &training(0));
    assert!(!infeasible && message.contains("`gpus` is 0"), "{message}");
}

fn limits(prompt: u64, output: u64) -> Limits {
    Limits {
        cached: 0,
        prompt,
        output,
        concurrency: None,
        first_token: None,
        token: None,
        confidence: Limits::USUAL_CONFIDENCE,
    }
}

#[test]
fn any_number_of_requests_is_served_also_one_that_engines_do_not_divide() {
    let (predictor, arch) = (predictor("h200"), model("llama-3-70b"));
    let fp8 = Workload {
        dtype: Dtype::Fp8,
        ..Workload::decode(1, 2304)
    };
    let served = |batch: Option<u64>, concurrency| {
        let query = Query {
            kept: batch.map(|batch| (Dimension::Batch, batch)).into_iter().collect(),
            memory_share: 0.9,
            ..query(4, fp8)
        };
        let limits = Limits {
            concurrency,
            ..limits(2048, 512)
        };
        serve(&predictor, arch, &query, &limits)
    };
    for batch in [3, 48, 50, 96] {
        let engines = served(Some(batch), None).unwrap().engines;
        assert!(engines.iter().all(|engine| engine.requests == batch));
    }
    let engines = served(None, Some(50)).unwrap().engines;
    let mut each: Vec<_> = engines
        .iter()
        .map(|engine| (engine.workload.dp, engine.requests))
        .collect();
    each.sort();
    each.dedup();
    assert_eq!(each, [(1, 50), (2, 25), (4, 13)]);
    for engine in &engines {
        let held = engine.first_token + engine.token.unwrap() * 512.0;
        let all = 50.0 * 512.0 / held.secs();
        assert!((engine.tokens_per_s / all - 1.0).abs() < 1e-9);
    }
    // More than fit wait, and take their share of what a full engine gives.
    let full = |batch, concurrency| {
        let engines = served(batch, Some(concurrency)).unwrap().engines;
        engines.into_iter().find(|engine| engine.workload.dp == 1).unwrap()
    };
    let [some, more] = [10_000, 20_000].map(|sent| full(None, sent));
    assert_eq!(some.requests + some.waiting, 10_000);
    assert_eq!((some.workload, some.tokens_per_s), (more.workload, more.tokens_per_s));
    for (engine, sent) in [(&some, 10_000.0), (&more, 20_000.0), (&full(Some(20), 50), 50.0)] {
        let held = engine.first_token + engine.token.unwrap() * 512.0;
        assert!((engine.tokens_per_s / (sent * 512.0 / held.secs()) - 1.0).abs() < 1e-9);
    }
    assert_eq!((full(Some(20), 50).requests, full(Some(20), 50).waiting), (20, 30));
    let refused = served(Some(5000), None).unwrap_err();
    let message = refused.to_string();
    assert!(
        refused.is_infeasible() && message.contains("cached keys and values"),
        "{message}"
    );
    let held = message
        .split("; ")
        .find_map(|part| part.strip_suffix(" in flight on an engine fit"));
    let held: u64 = held.unwrap().parse().unwrap();
    assert!(
        served(Some(held), None).is_ok() && served(Some(held + 1), None).is_err(),
        "{message}"
    );
}

#[test]
fn an_engine_has_the_interval_of_its_step() {
    let arch = model("llama-3-70b");
    // Runs of servers were compared on the first, none on the second.
    for gpu in ["h200", "mi300x"] {
        let predictor = predictor(gpu);
        let query = Query {
            memory_share: 0.9,
            ..query(8, Workload::prefill(1, 2048))
        };
        for engine in serve(&predictor, arch, &query, &limits(2048, 512)).unwrap().engines {
            let step = estimate_step(
                &predictor,
                arch,
                &Workload {
                    dp: 1,
                    ..engine.workload
                },
            )
            .unwrap();
            let [low, high] = engine.ends[0].unwrap();
            for (end, of_step) in [(low, step.low), (high, step.high)] {
                assert!((end / of_step).ln().abs() < 1e-9, "{gpu}: {end} {of_step}");
            }
        }
    }
}

#[test]
fn a_slightly_longer_limit_gives_slightly_more_tokens_and_every_row_says_how_likely_it_is_kept() {
    let (predictor, arch) = (predictor("h200"), model("llama-3-70b"));
    let fp8 = Workload {
        dtype: Dtype::Fp8,
        ..Workload::decode(1, 4352)
    };
    let served = |first_ms: f64, confidence| {
        let query = Query {
            memory_share: 0.9,
            ..query(8, fp8)
        };
        let limits = Limits {
            first_token: Some(Seconds::from_secs(first_ms * 1e-3)),
            token: Some(Seconds::from_secs(0.04)),
            confidence,
            ..limits(4096, 512)
        };
        serve(&predictor, arch, &query, &limits).unwrap().engines
    };
    let rates: Vec<f64> = (0..12)
        .map(|step| served(900.0 + 25.0 * f64::from(step), 0.5)[0].tokens_per_s)
        .collect();
    for pair in rates.windows(2) {
        // Requests in flight are tried to a sixteenth.
        assert!((0.93..1.13).contains(&(pair[1] / pair[0])), "{rates:?}");
    }
    let surer = served(1000.0, 0.7);
    assert!(surer[0].tokens_per_s < rates[4]);
    for engine in surer {
        assert!(engine.kept.iter().all(|kept| kept.unwrap() >= 0.7));
        let [_, high] = engine.ends[0].unwrap();
        let within = (1.0 / engine.first_token.secs()).ln() / (high / engine.first_token).ln() * 1.645;
        // The 70 % quantile of the normal distribution is 0.524.
        assert!(within >= 0.524);
    }
}

#[test]
fn engines_keep_their_limits_and_slower_limits_give_more_tokens() {
    let (predictor, arch) = (predictor("h100"), model("llama-3-70b"));
    let served = |token_ms: Option<f64>| {
        let limits = Limits {
            token: token_ms.map(|ms| Seconds::from_secs(ms * 1e-3)),
            ..limits(2048, 256)
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
    assert!(refused.to_string().contains("per further token"), "{refused}");
    let prompts = Limits {
        first_token: Some(Seconds::from_secs(1.0)),
        ..limits(2048, 0)
    };
    let prefill = query(8, Workload::prefill(1, 2048));
    let prefill = serve(&predictor, arch, &prefill, &prompts).unwrap();
    let best = &prefill.engines[0];
    assert!(best.token.is_none() && best.workload.mode == Mode::Prefill);
    assert!(best.first_token.secs() <= 1.0 && best.tokens_per_s > 1000.0);
}

#[test]
fn cached_tokens_of_a_prompt_shorten_its_pass_alone() {
    let (predictor, arch) = (predictor("h200"), model("llama-3-8b"));
    let engine = |cached, work| {
        let query = Query {
            kept: vec![(Dimension::Batch, 16)],
            memory_share: 0.9,
            ..query(1, work)
        };
        let limits = Limits {
            cached,
            ..limits(8192, if work.mode == Mode::Decode { 256 } else { 0 })
        };
        serve(&predictor, arch, &query, &limits).unwrap().engines.remove(0)
    };
    let decode = |cached| engine(cached, Workload::decode(1, 8320));
    let [whole, most] = [0, 7168].map(decode);
    // An eighth of the linear maps, and the attention of the last eighth, 15 of 64 parts.
    let share = most.first_token / whole.first_token;
    assert!((0.12..0.25).contains(&share), "{share}");
    assert_eq!(most.memory, whole.memory);
    assert!(most.token.unwrap() < whole.token.unwrap());
    let [whole, most] = [0, 7168].map(|cached| engine(cached, Workload::prefill(1, 8192)));
    assert_eq!((most.workload.seq, most.workload.context), (1024, 7168));
    // 16 caches of 8,192 tokens, the weights, and the activations of a chunk.
    assert!(most.memory.bytes() > 33e9, "{}", most.memory);
    assert_eq!(most.memory, whole.memory);
    assert!(most.tokens_per_s > 4.0 * whole.tokens_per_s);
}

#[test]
fn a_layer_is_split_over_nodes_where_that_is_asked_for() {
    let (predictor, arch) = (predictor("h100"), model("llama-3-70b"));
    let mut asked = query(16, Workload::decode(1, 1024));
    let usual = serve(&predictor, arch, &asked, &limits(1024, 256)).unwrap();
    assert!(usual.engines.iter().all(|engine| engine.workload.tp <= 8));
    asked.kept = vec![(Dimension::Tp, 16)];
    let wide = serve(&predictor, arch, &asked, &limits(1024, 256)).unwrap();
    assert!(wide.engines.iter().all(|engine| engine.workload.tp == 16));
}
