//! Near workloads that may fix a rule: batches, sequences, fewer ranks.

use crate::arch::{Architecture, Mode, Workload};

fn with_batch(work: &Workload, batch: u64) -> Workload {
    Workload { batch, ..*work }
}

/// The next batches, and those that align the tokens.
pub(super) fn batches(work: &Workload) -> Vec<Workload> {
    let batch = work.batch;
    (batch.saturating_sub(2).max(1)..=batch + 2)
        .chain([8, 16, 64].map(|unit| batch.next_multiple_of(unit)))
        .map(|batch| with_batch(work, batch))
        .collect()
}

/// Doubled batches.
pub(super) fn larger_batches(work: &Workload) -> Vec<Workload> {
    (1..=6)
        .map(|doublings| with_batch(work, work.batch << doublings))
        .collect()
}

/// The sequence at near multiples, within the position table.
pub(super) fn sequences(arch: &Architecture, work: &Workload) -> Vec<Workload> {
    if work.mode == Mode::Decode {
        return Vec::new();
    }
    let room = arch.positions.longest().saturating_sub(work.context);
    let seq = work.seq;
    [64, 128, 256]
        .into_iter()
        .flat_map(|unit| [seq / unit * unit, seq.next_multiple_of(unit)])
        .filter(|seq| (1..=room).contains(seq))
        .map(|seq| Workload { seq, ..*work })
        .collect()
}

/// Divisors of the number of ranks.
pub(super) fn fewer_ranks(work: &Workload) -> Vec<Workload> {
    let small = (1..=work.tp.isqrt()).filter(|fewer| work.tp.is_multiple_of(*fewer));
    let mut fewer: Vec<u64> = small.flat_map(|small| [small, work.tp / small]).collect();
    fewer.retain(|fewer| *fewer < work.tp);
    fewer.sort_unstable();
    fewer.dedup();
    fewer.into_iter().map(|tp| Workload { tp, ..*work }).collect()
}

/// Experts that are whole on the tensor-parallel ranks, on as many GPUs.
pub(super) fn whole_experts(arch: &Architecture, work: &Workload) -> Option<Workload> {
    let ep = work.ep * work.expert_ranks();
    let experts = arch.moe.map_or(0, |moe| moe.experts);
    (ep > work.ep && experts > 0 && experts.is_multiple_of(ep)).then_some(Workload {
        ep,
        expert_tp: 1,
        ..*work
    })
}

/// Fewer pipeline stages, each with as many layers.
pub(super) fn fewer_stages(arch: &Architecture, work: &Workload) -> Vec<Workload> {
    let fewer = (1..work.pp.min(arch.layers)).filter(|fewer| arch.layers.is_multiple_of(*fewer));
    fewer.map(|pp| Workload { pp, ..*work }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_the_divisors_even_of_the_largest_number() {
        let ranks = |tp| {
            let work = Workload {
                tp,
                ..Workload::train(1, 1)
            };
            fewer_ranks(&work).iter().map(|fewer| fewer.tp).collect::<Vec<_>>()
        };
        assert!(ranks(1).is_empty());
        assert_eq!(ranks(16), [1, 2, 4, 8]);
        assert_eq!(ranks(12), [1, 2, 3, 4, 6]);
        assert_eq!(ranks(7), [1]);
        let begun = std::time::Instant::now();
        assert_eq!(ranks(1 << 32).len(), 32);
        assert!(begun.elapsed().as_secs() < 2, "{:?}", begun.elapsed());
    }
}
