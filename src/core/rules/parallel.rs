//! Rules on how a model is split over GPUs.

use crate::arch::Workload;
use crate::rules::alignment::inner;
use crate::rules::{Severity, Subject, Verdict};

pub(super) fn tensor_parallel(subject: &Subject) -> Verdict {
    let tp = subject.work.tp;
    if tp == 1 {
        return Verdict::met("tp 1");
    }
    let fits = |tp: &u64| {
        subject.holds(&Workload {
            tp: *tp,
            ..*subject.work
        })
    };
    let fewer = (1..=tp / 2).filter(|fewer| tp.is_multiple_of(*fewer));
    match fewer.into_iter().find(fits) {
        None => Verdict::met(format!("tp {tp}; fewer ranks do not fit")),
        Some(fewer) => Verdict::broken(
            Severity::Advice,
            tp as f64,
            format!("tp {fewer}"),
            &format!("tp {tp}, and tp {fewer} fits the memory"),
        ),
    }
}

pub(super) fn pipeline(subject: &Subject) -> Verdict {
    let (layers, stages) = (subject.arch.layers, subject.work.pp);
    if stages == 1 {
        return Verdict::not_applicable("there is one stage");
    }
    if layers.is_multiple_of(stages) {
        let each = layers / stages;
        return Verdict::met(format!("{each} layers on each of {stages} stages"));
    }
    let most = layers.div_ceil(stages);
    let detail = format!("{layers} layers over {stages} stages: the fullest has {most}");
    let wanted = format!("a multiple of {stages}");
    Verdict::broken(Severity::Hard, layers as f64, wanted, &detail)
}

pub(super) fn node_size(subject: &Subject) -> Verdict {
    let (arch, tp) = (subject.arch, subject.work.tp);
    if tp == 1 {
        return Verdict::not_applicable("tp 1 splits nothing");
    }
    let [dense, expert, shared] = inner(arch, subject.work);
    // Fewer key heads than ranks may be replicated; trainers and servers pad the vocabulary (Megatron-LM
    // `_vocab_size_with_padding`, vLLM `VocabParallelEmbedding`), which is a rule of its own.
    let kv_heads = if tp.is_multiple_of(arch.kv_heads) {
        0
    } else {
        arch.kv_heads
    };
    let widths = [
        ("heads", arch.heads, tp),
        ("key/value heads", kv_heads, tp),
        ("hidden", arch.hidden, tp),
        dense,
        expert,
        shared,
    ];
    let mut rest = widths.iter().filter(|(_, width, ranks)| !width.is_multiple_of(*ranks));
    let Some(first) = rest.next() else {
        return Verdict::met(format!("tp {tp} divides heads, hidden and d_ff"));
    };
    let names: Vec<_> = std::iter::once(first)
        .chain(rest)
        .map(|(name, width, _)| format!("{name} {width}"))
        .collect();
    let detail = format!("tp {tp} does not divide {}", names.join(", "));
    let wanted = format!("multiples of {tp}");
    Verdict::broken(Severity::Hard, first.1 as f64, wanted, &detail)
}
