//! The headline: how far apart shapes of one size are.

use crate::reproduce::judge::{Basis, Criterion, Limit, Unit};
use crate::reproduce::spec::Values;
use crate::reproduce::timings::Predictors;
use crate::reproduce::{Axis, Comparison, Curve, Finding, Panel};
use serde::Deserialize;
use shapewise::arch::{Architecture, AttentionKernel, Workload, parameters};
use shapewise::error::Result;
use shapewise::predict::Predictor;
use shapewise::predict::step::estimate_step;
use shapewise::search::{Request, search};
use std::ops::ControlFlow;

/// The best shape that a search finds against the poorest of a list that one could write by hand.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadlineSpec {
    /// The model whose parameters are wanted, by its preset.
    preset: String,
    /// Its name for readers.
    name: String,
    pub gpus: Vec<String>,
    batch: u64,
    seq: u64,
    /// The claimed gain of the best shape over the poorest.
    claimed: f64,
    /// The kernels, each with its name for readers.
    attention: Vec<(AttentionKernel, String)>,
    /// The kernel that the claim is of: the authors' logs are almost all of unfused attention.
    judged: AttentionKernel,
    /// Hidden sizes of the list.
    hidden: Values,
    /// Head sizes of the list, where they divide the hidden size: those that published GPTs have,
    /// poor ones included.
    head_dim: Values,
    /// Least and greatest hidden size over layers, as in published models of billions of
    /// parameters.
    aspect: (u64, u64),
    /// Title and conditions of the panels.
    panel: (String, String),
}

/// A shape with its throughput at equal parameters.
struct Shape {
    arch: Architecture,
    tokens_per_s: f64,
}

impl HeadlineSpec {
    /// Every shape of about as many parameters that one could write down by hand: an MLP of four
    /// times the hidden size, the vocabulary as it is or padded.
    fn by_hand(&self, model: &Architecture) -> Vec<Architecture> {
        let wanted = parameters(model).total as f64;
        let mut shapes = Vec::new();
        for hidden in self.hidden.list() {
            let head_dims = self.head_dim.list().into_iter();
            for head_dim in head_dims.filter(|d| hidden.is_multiple_of(*d)) {
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
                    if (self.aspect.0..=self.aspect.1).contains(&(hidden / arch.layers)) {
                        shapes.push(arch);
                    }
                }
            }
        }
        shapes
    }

    /// Adds comparisons, criteria, notes and panels for every GPU and kernel.
    pub fn evaluate(&self, predictors: &Predictors, finding: &mut Finding) -> Result<()> {
        for gpu in &self.gpus {
            for (kernel, text) in &self.attention {
                self.add(predictors.of(gpu), *kernel, &format!("{gpu}, {text}"), finding)?;
            }
        }
        Ok(())
    }

    fn add(&self, predictor: &Predictor, kernel: AttentionKernel, place: &str, finding: &mut Finding) -> Result<()> {
        let model = Architecture::find(&self.preset)?;
        let wanted = parameters(&model).total as f64;
        let work = Workload {
            attention: kernel,
            ..Workload::train(self.batch, self.seq)
        };
        let request = Request::like(&model, work);
        let found = search(predictor, &request, &|_| ControlFlow::Continue(()))?;
        let work = found.request.workload;
        let judged = |arch| judged(predictor, arch, &work, wanted);
        let best = judged(found.fastest.architecture)?;
        let published = judged(model.clone())?;
        let shapes = self.by_hand(&model).into_iter().map(judged);
        let mut all = shapes.collect::<Result<Vec<_>>>()?;
        all.sort_by(|a, b| b.tokens_per_s.total_cmp(&a.tokens_per_s));
        let (Some(good), Some(poor)) = (all.first(), all.last()) else {
            return Ok(());
        };
        let name = &self.name;
        for (what, above, below) in [
            ("best of the search over the poorest by hand", &best, poor),
            (&*format!("best of the search over {name}"), &best, &published),
            ("best by hand over the poorest by hand", good, poor),
        ] {
            let ratio = above.tokens_per_s / below.tokens_per_s;
            let what = format!("{place}: {what}");
            finding
                .comparisons
                .push(Comparison::new(what, None, ratio, Unit::Ratio));
        }
        if kernel == self.judged {
            let count = all.len();
            finding.criteria.push(Criterion::new(
                format!("{place}: best over poorest shape of {count} at equal parameters"),
                Basis::Claim,
                best.tokens_per_s / poor.tokens_per_s,
                Unit::Ratio,
                Limit::AtLeast(self.claimed),
            ));
        }
        let sharded = match found.sharded {
            true => "; training states spread over replicas to fit the memory",
            false => "",
        };
        finding.notes.push(format!(
            "{place}: best {}; poorest {}{sharded}.",
            describe(&best.arch),
            describe(&poor.arch)
        ));
        let axis = |label: &str, unit| Axis {
            label: label.to_owned(),
            unit,
            log: false,
        };
        let spot = |shape: &Shape| (shape.arch.layers as f64, shape.tokens_per_s);
        finding.panels.push(Panel {
            title: self.panel.0.replace("{place}", place),
            conditions: self.panel.1.clone(),
            x: axis("layers", Unit::Plain),
            y: axis("throughput of a GPU", Unit::TokensPerS),
            predicted: Vec::new(),
            points: vec![
                Curve {
                    labels: vec![String::new(); all.len()],
                    ..Curve::new("shapes by hand", all.iter().map(spot).collect())
                },
                Curve {
                    labels: vec!["search".to_owned(), name.clone(), "poorest".to_owned()],
                    ..Curve::new("named", [&best, &published, poor].map(spot).to_vec())
                },
            ],
            basis: Vec::new(),
            marks: None,
        });
        Ok(())
    }
}

/// Tokens per second of one GPU times parameters over those wanted: the throughput at equal
/// parameters.
fn judged(predictor: &Predictor, arch: Architecture, work: &Workload, wanted: f64) -> Result<Shape> {
    let rate = estimate_step(predictor, &arch, work)?.tokens_per_s_per_gpu();
    let tokens_per_s = rate * parameters(&arch).total as f64 / wanted;
    Ok(Shape { arch, tokens_per_s })
}

fn describe(arch: &Architecture) -> String {
    format!(
        "{} layers of {}, {} heads ({} kv) of {}, d_ff {}, {} words",
        arch.layers, arch.hidden, arch.heads, arch.kv_heads, arch.head_dim, arch.mlp.d_ff, arch.vocab
    )
}
