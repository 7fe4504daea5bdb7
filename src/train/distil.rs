//! Distillation (Hinton et al., arXiv 1503.02531) of several nets and a teacher of trees into one net that answers.
//!
//! Members and teacher err in different ways, so their mean is better than either; but together they are slow. One net
//! learns that mean, and how far apart the members are, on the measured shapes and on as many synthetic ones as it
//! takes: their labels cost no measurement.

use crate::families::{Family, sample_unlabelled};
use crate::ops::Op;
use crate::regressor::artifact::Weights;
use crate::regressor::evaluate::Evaluator;
use crate::regressor::net::Output;
use crate::train::fit::Samples;
use crate::train::teacher::{LabelledTable, Teacher};

/// What trees weigh in the labels beside the members: chosen from five shares on held-out pairs of H200 (docs/method/notebook.md).
const TEACHER: f32 = 0.7;

/// The measured shapes of `own` tables and this many synthetic ones between them: normalised features with two targets each,
/// what members and teacher expect and how far apart the members are.
pub fn label(
    members: &Weights,
    teacher: Option<&Teacher<'_>>,
    own: &[LabelledTable<'_>],
    synthetic: usize,
    family: Family,
    seed: u64,
) -> Samples {
    let mut samples = Samples::empty(family.width());
    let evaluator = Evaluator::new(members);
    let mut answers = Vec::new();
    for table in own {
        let measured: Vec<&Op> = table.rows.iter().map(|(op, _)| *op).collect();
        let shapes = sample_unlabelled(&measured, synthetic / own.len(), seed);
        let unlabelled = LabelledTable::unlabelled(&shapes, table.rates);
        for table in [table, &unlabelled] {
            let mut labelled = table.samples(family);
            let labels = teacher.map(|teacher| teacher.label(table, &labelled.inputs));
            evaluator.evaluate(&labelled.inputs, &mut answers);
            labelled.targets = targets(&answers, labels);
            members.normalise(&mut labelled.inputs);
            samples.append(labelled);
        }
    }
    samples
}

/// Of each row the weighted mean of members and teacher, and the spread of the members.
fn targets(members: &[Output], labels: Option<Vec<f32>>) -> Vec<f32> {
    let rows = members.iter().enumerate().map(|(row, members)| {
        let mean = members.mean as f32;
        let label = labels.as_ref().map_or(mean, |labels| labels[row]);
        [mean + TEACHER * (label - mean), members.spread as f32]
    });
    rows.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_lie_between_members_and_teacher_and_the_members_alone_spread() {
        let members = [[3.0, 5.0], [-1.0, 1.0]].map(|each| Output::of_members(each.into_iter()));
        assert_eq!(targets(&members, None), [4.0, 1.0, 0.0, 1.0]);
        let labels = Some(vec![14.0, 10.0]);
        assert_eq!(targets(&members, labels), [11.0, 1.0, 7.0, 1.0]);
    }
}
