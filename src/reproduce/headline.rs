//! The headline: how far apart shapes of one size are.

use crate::arch::Architecture;
use crate::arch::AttentionKernel;
use crate::arch::Workload;
use crate::arch::parameters;
use crate::error::Result;
use crate::predict::Predictor;
use crate::predict::step::estimate_step;
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
use crate::search::Request;
use crate::search::search;
use std::ops::ControlFlow;

/// The gain that the abstract claims: "up to 39 %".
const CLAIMED: f64 = 1.39;

/// Hidden sizes over layers that published models of billions of parameters keep to; see `data/search-bounds.toml`.
const ASPECT: std::ops::RangeInclusive<u64> = 60..=160;

/// Head sizes that published GPTs have, poor ones included.
const HEAD_DIMS: std::ops::RangeInclusive<u64> = 64..=128;

/// A shape with its throughput at equal parameters.
struct Shape {
    arch: Architecture,
    tokens_per_s: f64,
}

/// Every shape of about as many parameters that one could write down by hand: hidden sizes by 64, an MLP of four times
/// that, head sizes that divide it, GPT-2's vocabulary as it is or padded.
fn by_hand(model: &Architecture) -> Vec<Architecture> {
    let wanted = parameters(model).total as f64;
    let mut shapes = Vec::new();
    for hidden in (1024..=4096).step_by(64) {
        for head_dim in HEAD_DIMS.filter(|d| hidden % d == 0) {
            for vocab in [model.vocab, model.vocab.next_multiple_of(64)] {
                let mut arch = model.clone();
                arch.hidden = hidden;
                arch.head_dim = head_dim;
                (arch.heads, arch.kv_heads) = (hidden / head_dim, hidden / head_dim);
                arch.mlp.d_ff = 4 * hidden;
                arch.vocab = vocab;
                arch.layers = 1;
                let one = parameters(&arch).total;
                arch.layers = 2;
                let each = parameters(&arch).total - one;
                let layers = (wanted - one as f64) / each as f64 + 1.0;
                arch.layers = layers.round().max(1.0) as u64;
                if ASPECT.contains(&(hidden / arch.layers)) {
                    shapes.push(arch);
                }
            }
        }
    }
    shapes
}

/// Tokens per second of one GPU times parameters over those wanted: the throughput at equal parameters.
fn judged(
    predictor: &Predictor,
    arch: Architecture,
    work: &Workload,
    wanted: f64,
) -> Result<Shape> {
    let rate = estimate_step(predictor, &arch, work)?.tokens_per_s_per_gpu();
    let tokens_per_s = rate * parameters(&arch).total as f64 / wanted;
    Ok(Shape { arch, tokens_per_s })
}

fn describe(arch: &Architecture) -> String {
    format!(
        "{} layers of {}, {} heads ({} kv) of {}, d_ff {}, {} words",
        arch.layers,
        arch.hidden,
        arch.heads,
        arch.kv_heads,
        arch.head_dim,
        arch.mlp.d_ff,
        arch.vocab
    )
}

pub(super) fn headline(machines: &Machines) -> Result<Finding> {
    let mut finding = Finding {
        id: "headline",
        title: "Up to 39 % at one size",
        claim: "Models with efficient shapes have up to 39 % more throughput than models of similar size with poor ones, at the same accuracy.",
        source: "abstract of arXiv 2401.14489; which shapes it compares was not seen",
        rules: &["vocabulary", "head-size", "few-heads", "tiles", "waves"],
        ..Finding::default()
    };
    let model = Architecture::find("gpt3-2.7b")?;
    let wanted = parameters(&model).total as f64;
    for predictor in [&machines.a100_80gb, &machines.h200] {
        let gpu = name(predictor);
        for (kernel, text) in [
            (AttentionKernel::Unfused, "unfused attention"),
            (AttentionKernel::Flash, "flash attention"),
        ] {
            let work = Workload {
                attention: kernel,
                ..Workload::train(BATCH, SEQ)
            };
            let request = Request::like(&model, work);
            let found = search(predictor, &request, &|_| ControlFlow::Continue(()))?;
            let work = found.request.workload;
            let best = judged(predictor, found.fastest.architecture, &work, wanted)?;
            let published = judged(predictor, model.clone(), &work, wanted)?;
            let mut all = Vec::new();
            for arch in by_hand(&model) {
                all.push(judged(predictor, arch, &work, wanted)?);
            }
            all.sort_by(|a, b| b.tokens_per_s.total_cmp(&a.tokens_per_s));
            let (Some(good), Some(poor)) = (all.first(), all.last()) else {
                continue;
            };
            let spread = best.tokens_per_s / poor.tokens_per_s;
            let mut ratio = |what: String, value: f64| {
                finding
                    .comparisons
                    .push(Comparison::new(what, None, value, Unit::Ratio));
            };
            ratio(
                format!("{gpu}, {text}: best of the search over the poorest by hand"),
                spread,
            );
            ratio(
                format!("{gpu}, {text}: best of the search over GPT-3 2.7B"),
                best.tokens_per_s / published.tokens_per_s,
            );
            ratio(
                format!("{gpu}, {text}: best by hand over the poorest by hand"),
                good.tokens_per_s / poor.tokens_per_s,
            );
            // The paper's claim is of its time: its logs are almost all of unfused attention.
            if kernel == AttentionKernel::Unfused {
                finding.criteria.push(Criterion::at_least(
                    format!(
                        "{gpu}, {text}: best over poorest shape of {} at equal parameters",
                        all.len()
                    ),
                    Basis::Claim,
                    spread,
                    Unit::Ratio,
                    CLAIMED,
                ));
            }
            finding.notes.push(format!(
                "{gpu}, {text}: best {}; poorest {}{}.",
                describe(&best.arch),
                describe(&poor.arch),
                if found.sharded {
                    "; training states spread over replicas to fit the memory"
                } else {
                    ""
                }
            ));
            let spot = |shape: &Shape| (shape.arch.layers as f64, shape.tokens_per_s);
            let named = [
                ("search", &best),
                ("GPT-3 2.7B", &published),
                ("poorest", poor),
            ];
            let named = named.map(|(name, shape)| {
                let (x, y) = spot(shape);
                (name.to_owned(), x, y)
            });
            let panel = Panel::new(
                format!("2.65B parameters on {gpu}, {text}"),
                Axis::plain("layers"),
                Axis::of("throughput of a GPU", Unit::TokensPerS),
            )
            .conditions(
                "training, batch 4 x 2,048 tokens, bf16; throughput at equal parameters; predicted",
            )
            .labelled(
                "shapes by hand",
                all.iter()
                    .map(|shape| (String::new(), spot(shape).0, spot(shape).1))
                    .collect(),
            )
            .labelled("named", named.to_vec());
            finding.panels.push(panel);
        }
    }
    finding.notes.insert(
        0,
        format!(
            "Nothing was measured to compare with. The poorest shape is that of a list that one could write by hand: hidden sizes by 64, an \
             MLP of 4h, heads of {} to {} that divide it, hidden size over layers {} to {}, the vocabulary odd or padded. The best is what `search` finds, key heads, MLP width and padding free.",
            HEAD_DIMS.start(),
            HEAD_DIMS.end(),
            ASPECT.start(),
            ASPECT.end()
        ),
    );
    Ok(finding)
}
