//! How a step runs: kernels, traffic and host are three lanes, and what one hides of another does not count.
//!
//! Per micro-batch and stage: kernels, the share of their neighbours' traffic that shows, the fixed times of a layer. The
//! host overtakes where launching takes longer. The last stage runs the head too. 1F1B, interleaved or not, idles for
//! `(p - 1) / v` micro-batches. Traffic of data parallelism hides behind the micro-batches up to their length, what
//! offloading moves over the link to the host behind the forward or the backward pass of one; Adam on the CPU hides
//! behind nothing.

use super::ledger::{Entry, Ledger, Section, Term};
use crate::arch::{Mode, Recipe};
use crate::framework::{Constant, Framework};
use crate::units::Seconds;

/// Exponent of the smooth maximum of device and host: within 9 % of the larger where both are equal.
const SHARPNESS: f64 = 8.0;

/// Share of a micro-batch behind which traffic of data parallelism can hide.
const HIDING: f64 = 0.9;

/// Share of the forward pass of a micro-batch: the backward pass does twice its arithmetic.
const FORWARD: f64 = 1.0 / 3.0;

/// Where the time of a step goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lanes {
    /// Kernels.
    pub kernels: Seconds,
    /// Traffic that no kernel hides.
    pub exposed: Seconds,
    /// Idle while the pipeline fills and drains.
    pub bubble: Seconds,
    /// Waiting for the host to launch.
    pub host: Seconds,
    /// Fixed times of layers, sequences and steps, and the growth with the number of GPUs.
    pub overhead: Seconds,
    /// Waiting for the link to the host and for Adam on the CPU.
    pub offload: Seconds,
    /// Wall time of the step: the sum of all.
    pub total: Seconds,
    /// What a server takes at least for a decode step, whatever the model; zero of other steps.
    server: Seconds,
    /// What the GPU waits for it, a part of [`Lanes::host`].
    pub waiting: Seconds,
    /// By which the times of a section are multiplied: 0 where another stage is the slowest.
    pub(super) sections: [f64; Section::COUNT],
    /// Share of data-parallel traffic that shows.
    pub(super) exposed_data: f64,
    /// The same of traffic with every micro-batch.
    pub(super) exposed_sharded: f64,
}

/// The constants of a framework by term: a multiplier each, and the start of a collective.
pub(super) struct Factors {
    terms: [f64; Term::COUNT],
    /// As [`Ledger::cold_share`] says.
    pub(super) cold_share: f64,
    start: f64,
    per_rank_doubling: f64,
    per_node_doubling: f64,
}

impl Factors {
    /// Those of a framework for the terms of a step, of which none gets faster than its arithmetic and what it reads allow.
    pub(super) fn of(framework: &Framework, ledger: &Ledger) -> Self {
        use Constant as C;
        let recipe = ledger.recipe;
        let get = |constant| framework.get(constant);
        let [linear, experts] = match recipe {
            Recipe::Tensorwise | Recipe::Fp8Block | Recipe::Int8 | Recipe::W8a16 | Recipe::W4a16 | Recipe::Sparse => {
                [1.0; 2]
            }
            Recipe::Rowwise => [get(C::RowwiseOverTensorwise); 2],
            Recipe::Mxfp8 => [get(C::Mxfp8OverFp8); 2],
            Recipe::Nvfp4 => [C::Nvfp4, C::Nvfp4Experts].map(get),
        };
        let integer = match recipe.is_integer() {
            true => get(C::IntegerExperts),
            false => 1.0,
        };
        let path = get(C::MoePath);
        let board = framework.board(&ledger.gpu);
        let reach = framework.attention_reach(ledger.kind, ledger.tokens);
        let mut terms = [1.0; Term::COUNT];
        for (term, factor) in [
            (Term::Gemm, get(C::Gemm) * board),
            (Term::GemmFp8, get(C::GemmFp8) * linear * board),
            (Term::Experts, get(C::Experts) * integer * path * board),
            (Term::ExpertsFp8, get(C::ExpertsFp8) * experts * path * board),
            (Term::Attention, get(C::Attention).powf(reach) * board),
            (Term::AttentionBackward, get(C::AttentionBackward).powf(reach) * board),
            (Term::LinearAttention, get(C::LinearAttention) * board),
            (Term::Other, board),
            (Term::Memory, get(C::Memory)),
            (Term::Permute, get(C::Permute) * path),
            (Term::BiasedActivation, get(C::BiasedActivation) * path),
            (Term::Launch, get(C::Launch)),
            (Term::Quantize, get(C::Quantize)),
            (Term::Accumulate, get(C::Accumulate)),
            (Term::TensorParallel, get(C::ExposedTp)),
            (Term::ContextParallel, get(C::ExposedCp)),
            (Term::PipelineParallel, get(C::ExposedPp)),
            (Term::ExpertParallel, get(C::ExposedEp) * path),
            (Term::ExpertNetwork, get(C::ExposedEpNetwork) * path),
        ] {
            terms[term as usize] = factor;
        }
        let start = get(C::CollectiveUs) * 1e-6;
        Self {
            terms,
            cold_share: ledger.cold_share(),
            start,
            per_rank_doubling: start * get(C::CollectiveGrowth),
            per_node_doubling: get(C::CollectiveNodeUs) * 1e-6,
        }
    }

    /// Seconds of an entry: for data parallelism all of it, else what shows.
    pub(super) fn seconds(&self, term: Term, entry: &Entry) -> f64 {
        let starts = self.start * entry.calls
            + self.per_rank_doubling * entry.rank_doublings
            + self.per_node_doubling * entry.node_doublings;
        ((entry.time + starts) * self.terms[term as usize]).max(entry.least(self.cold_share))
    }
}

const KERNELS: [Term; 14] = [
    Term::Gemm,
    Term::GemmFp8,
    Term::Experts,
    Term::ExpertsFp8,
    Term::Attention,
    Term::AttentionBackward,
    Term::LinearAttention,
    Term::Other,
    Term::Memory,
    Term::Permute,
    Term::BiasedActivation,
    Term::Launch,
    Term::Quantize,
    Term::Accumulate,
];

const IN_LAYERS: [Term; 5] = [
    Term::TensorParallel,
    Term::ContextParallel,
    Term::PipelineParallel,
    Term::ExpertParallel,
    Term::ExpertNetwork,
];

impl Lanes {
    /// What the server takes at least for a step, where that decides its time.
    pub fn bound_by_server(&self) -> Option<Seconds> {
        (self.waiting > Seconds::ZERO).then_some(self.server)
    }

    /// The wall time of a step that has so many times the work of this one, over that of this one.
    pub fn scaled(&self, work: f64) -> f64 {
        let busy = 1.0 - self.waiting / self.total;
        (busy * work).max(self.server / self.total)
    }

    /// The time of a step under a framework.
    pub fn of(ledger: &Ledger, framework: &Framework) -> Self {
        Self::with(ledger, framework, &Factors::of(framework, ledger))
    }

    /// The same with the factors of that framework.
    pub(super) fn with(ledger: &Ledger, framework: &Framework, factors: &Factors) -> Self {
        use Constant as C;
        let get = |constant| framework.get(constant);
        let sum = |section: Section, terms: &[Term]| -> f64 {
            let entries = &ledger.entries[section as usize];
            let each = terms.iter();
            each.map(|&term| factors.seconds(term, &entries[term as usize])).sum()
        };
        let mut bounded = [0.0; Section::COUNT];
        for (section, term, entry) in &ledger.kernels {
            bounded[*section as usize] += factors.seconds(*term, entry);
        }
        let kernels = |section: Section| bounded[section as usize] + sum(section, &KERNELS);
        let micro = ledger.microbatches;

        let layer_kernels = kernels(Section::Layers);
        let layer_traffic = sum(Section::Layers, &IN_LAYERS);
        let trains = ledger.mode == Mode::Train;
        // Passes that launch the experts: forward alone, or forward and twice backward.
        let passes = if trains { 6.0 } else { 2.0 };
        let fixed = 1e-6
            * (ledger.layers
                * get(if ledger.mode == Mode::Prefill {
                    C::PrefillLayerUs
                } else {
                    C::LayerUs
                })
                + ledger.moe_layers
                    * get(C::MoePath)
                    * (get(C::MoeLayerUs) + get(C::ExpertLaunchUs) * passes * ledger.experts));
        let head_kernels = kernels(Section::Head);
        let head_traffic = sum(Section::Head, &IN_LAYERS);
        let head_time = head_kernels + head_traffic;

        let device = layer_kernels + layer_traffic + fixed;
        let host = (get(C::HostUs) * 1e-6).max(ledger.least_launch) * ledger.launches;
        let stage = smooth_maximum(device, (host - head_time).max(0.0));
        let (in_last, in_head) = if ledger.head_is_a_layer {
            let shorter = (ledger.layers - 1.0) / ledger.layers;
            if stage * shorter + head_time > stage {
                (shorter, 1.0)
            } else {
                (1.0, 0.0)
            }
        } else {
            (1.0, 1.0)
        };
        let last = stage * in_last + head_time * in_head;
        let compute = micro * last;
        let bubble = ledger.bubble * stage;

        let data = sum(Section::Update, &[Term::DataParallel]);
        let sharded = sum(Section::Layers, &[Term::ShardedData]) * micro + sum(Section::Update, &[Term::ShardedData]);
        let shown = |traffic: f64, share: f64, behind: f64| (share * traffic).max(traffic - behind);
        let data_shown = shown(data, get(C::ExposedDp), HIDING * last);
        let sharded_shown = shown(sharded, get(C::ExposedFsdp), HIDING * compute);
        let updated = kernels(Section::Update);
        let moved = |traffic: f64, part: f64| shown(traffic, get(C::ExposedFsdp), HIDING * last * part);
        let host_link = &ledger.host;
        let out = moved(host_link.activations, FORWARD);
        let back = moved(host_link.activations, 1.0 - FORWARD).max(moved(host_link.gradients, 1.0 - FORWARD));
        let offload = micro * (out + back) + host_link.adam.max(host_link.weights);
        let constant = get(C::StepMs) * 1e-3 + get(C::SequenceUs) * 1e-6 * ledger.sequences;

        let plain = compute + bubble + data_shown + sharded_shown + updated + constant + offload;
        let growth = get(C::GrowthPerDoubling) * (ledger.gpus / 8.0).log2().max(0.0);
        let grown = plain * (1.0 + growth);
        let server = match ledger.mode {
            Mode::Decode => get(C::HostStepMs) * 1e-3,
            Mode::Train | Mode::Prefill => 0.0,
        };
        let waiting = (server - grown).max(0.0);
        let seconds = Seconds::from_secs;
        Self {
            kernels: seconds(micro * (layer_kernels * in_last + head_kernels * in_head) + updated),
            exposed: seconds(micro * (layer_traffic * in_last + head_traffic * in_head) + data_shown + sharded_shown),
            bubble: seconds(bubble),
            host: seconds(micro * in_last * (stage - device) + waiting),
            overhead: seconds(micro * in_last * fixed + constant + plain * growth),
            offload: seconds(offload),
            total: seconds(grown + waiting),
            server: seconds(server),
            waiting: seconds(waiting),
            sections: [in_last, in_head, 1.0],
            exposed_data: share(data_shown, data),
            exposed_sharded: share(sharded_shown, sharded),
        }
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The larger of two times, more where both are close: kernels wait for launches now and then.
fn smooth_maximum(a: f64, b: f64) -> f64 {
    if b <= 0.0 {
        return a;
    }
    let largest = a.max(b);
    largest * ((a / largest).powf(SHARPNESS) + (b / largest).powf(SHARPNESS)).powf(1.0 / SHARPNESS)
}
