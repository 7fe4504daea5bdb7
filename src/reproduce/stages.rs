//! What several GPUs ask of a shape: ranks that divide it, equal pipeline stages, branches side by side.

use crate::arch::Architecture;
use crate::arch::NormPlacement;
use crate::arch::Workload;
use crate::error::Result;
use crate::reproduce::Axis;
use crate::reproduce::Comparison;
use crate::reproduce::Finding;
use crate::reproduce::Panel;
use crate::reproduce::judge::Basis;
use crate::reproduce::judge::Criterion;
use crate::reproduce::judge::Unit;
use crate::reproduce::layer::BATCH;
use crate::reproduce::layer::SEQ;
use crate::reproduce::machines::Machines;
use crate::reproduce::machines::name;
use crate::reproduce::parallel::RANKS;
use crate::reproduce::parallel::per_gpu;

/// Ranks of a node with six GPUs and of one with eight.
const NODE_RANKS: [u64; 6] = [1, 2, 3, 4, 6, 8];

pub(super) fn six_to_a_node(machines: &Machines) -> Result<Finding> {
    let gpu = name(&machines.target);
    let usual = Architecture::find("gpt3-2.7b")?;
    let mut fitting = usual.clone();
    fitting.hidden = 3072;
    (fitting.heads, fitting.kv_heads, fitting.head_dim) = (24, 24, 128);
    fitting.mlp.d_ff = 4 * 3072;
    fitting.layers = 22;
    fitting.vocab = 50304;
    let mut panel = Panel::new(
        format!("Ranks that shapes can be divided by, {gpu}"),
        Axis::plain("tensor-parallel ranks"),
        Axis::of("throughput of a GPU", Unit::TokensPerS),
    )
    .conditions("training, batch 4 x 2,048 tokens, bf16, flash attention; ranks that do not divide the shape are left out");
    let mut runs = Vec::new();
    for (arch, title) in [
        (&usual, "GPT-3 2.7B: h 2,560, 32 heads"),
        (&fitting, "h 3,072, 24 heads, 22 layers, 50,304 words"),
    ] {
        let mut line = Vec::new();
        for tp in NODE_RANKS {
            let work = Workload {
                tp,
                ..Workload::train(BATCH, SEQ)
            };
            if work.validate(arch).is_ok() {
                line.push((tp as f64, per_gpu(&machines.target, arch, &work)?));
            }
        }
        runs.push(line.iter().any(|(tp, _)| *tp == 6.0));
        let spots = line
            .into_iter()
            .map(|(tp, rate)| (tp.to_string(), tp, rate));
        panel = panel.labelled(format!("predicted, {title}"), spots.collect());
    }
    Ok(Finding {
        id: "six-to-a-node",
        title: "Nodes of six GPUs",
        claim: "Where a node has six GPUs, sizes have to be divisible by six too; powers of two are not.",
        source: "the case study of the paper was not seen; divisibility is plain arithmetic (live example: vllm-project/vllm, issue 31474)",
        rules: &["node-size", "attention-shard"],
        panels: vec![panel],
        criteria: vec![
            Criterion::holds("GPT-3 2.7B is refused on 6 ranks", Basis::Claim, !runs[0]),
            Criterion::holds(
                "24 heads of 128 at h 3,072 run on 6 ranks",
                Basis::Claim,
                runs[1],
            ),
        ],
        notes: vec!["Numbers of the case study (Summit): not seen.".to_owned()],
        ..Finding::default()
    })
}

/// Layers around those of GPT-3 2.7B.
const DEPTHS: std::ops::RangeInclusive<u64> = 24..=40;

pub(super) fn pipeline(machines: &Machines) -> Result<Finding> {
    let gpu = name(&machines.target);
    let mut arch = Architecture::find("gpt3-2.7b")?;
    let mut panel = Panel::new(
        format!("Layers of GPT-3 2.7B over pipeline stages on {gpu}"),
        Axis::plain("layers"),
        Axis::of("throughput of a GPU and layer", Unit::TokensPerS),
    )
    .conditions(
        "tokens/s times layers over 32; 64 micro-batches of 4 x 2,048 tokens, bf16, flash attention",
    );
    let mut criteria = Vec::new();
    let mut comparisons = Vec::new();
    for pp in [4, 8] {
        let mut line = Vec::new();
        for layers in DEPTHS {
            arch.layers = layers;
            let work = Workload {
                pp,
                microbatches: 64,
                ..Workload::train(BATCH, SEQ)
            };
            let rate = per_gpu(&machines.target, &arch, &work)? * layers as f64 / 32.0;
            line.push((layers as f64, rate));
        }
        let at = |layers: u64| line[(layers - DEPTHS.start()) as usize].1;
        let text = format!("{pp} stages: 32 layers over 33, per layer");
        comparisons.push(Comparison::new(&text, None, at(32) / at(33), Unit::Ratio));
        let whole = DEPTHS.filter(|layers| layers.is_multiple_of(pp) && layers + 1 < *DEPTHS.end());
        let best = whole.fold(f64::INFINITY, |least: f64, layers| {
            least.min(at(layers) / at(layers + 1))
        });
        criteria.push(Criterion::at_least(
            format!("{pp} stages: a multiple of them over one layer more, least of all multiples"),
            Basis::Claim,
            best,
            Unit::Ratio,
            1.0,
        ));
        panel = panel.predicted(format!("predicted, {pp} stages"), line);
    }
    Ok(Finding {
        id: "pipeline-stages",
        title: "Pipeline stages",
        claim: "The number of layers should be a multiple of the pipeline stages: the stage with one layer more sets the pace.",
        source: "not seen in any text of the paper that could be read; usual requirement of pipeline code (Megatron-LM)",
        rules: &["pipeline"],
        panels: vec![panel],
        comparisons,
        criteria,
        notes: vec!["Nothing was measured; the bubble follows GPipe, (m + p - 1) / m.".to_owned()],
        ..Finding::default()
    })
}

pub(super) fn parallel_layers(machines: &Machines) -> Result<Finding> {
    let gpu = name(&machines.target);
    let side_by_side = Architecture::find("gpt-j-6b")?;
    let mut one_by_one = side_by_side.clone();
    one_by_one.parallel_layers = false;
    one_by_one.norm.placement = NormPlacement::Pre;
    let mut lines = [Vec::new(), Vec::new()];
    for tp in RANKS {
        let work = Workload {
            tp,
            ..Workload::train(BATCH, SEQ)
        };
        for (line, arch) in lines.iter_mut().zip([&side_by_side, &one_by_one]) {
            line.push((tp as f64, per_gpu(&machines.target, arch, &work)?));
        }
    }
    let [parallel, sequential] = lines;
    let gains: Vec<_> = parallel
        .iter()
        .zip(&sequential)
        .map(|(a, b)| (a.0, a.1 / b.1))
        .collect();
    let of = |gain: &(f64, f64)| {
        format!(
            "GPT-J 6B with {} ranks on {gpu}: parallel over sequential layers",
            gain.0
        )
    };
    Ok(Finding {
        id: "parallel-layers",
        title: "Parallel layers",
        claim: "Attention and MLP side by side cost the same products, one norm less and, over several GPUs, one all-reduce less in each direction.",
        source: "named as a variant by the paper (arXiv 2401.14489); its wording and numbers were not seen; consequences derived",
        rules: &["tensor-parallel"],
        comparisons: gains
            .iter()
            .map(|gain| Comparison::new(of(gain), None, gain.1, Unit::Ratio))
            .collect(),
        criteria: gains
            .iter()
            .map(|gain| Criterion::at_least(of(gain), Basis::Claim, gain.1, Unit::Ratio, 1.0))
            .collect(),
        panels: vec![
            Panel::new(
                format!("Parallel layers by ranks on {gpu}"),
                Axis::log("tensor-parallel ranks"),
                Axis::of("throughput of a GPU", Unit::TokensPerS),
            )
            .conditions("GPT-J 6B, training, batch 4 x 2,048 tokens, bf16, flash attention")
            .predicted("parallel layers", parallel)
            .predicted("sequential layers", sequential),
        ],
        notes: vec![
            "Products that both branches could share are not fused in the prediction.".to_owned(),
        ],
        ..Finding::default()
    })
}
