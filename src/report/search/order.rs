//! What the order of searched shapes hangs on, as a document and in words.

use crate::arch::{Dimension, Role};
use crate::report::search::SearchReport;
use crate::report::{grouped, joined, percent};
use crate::search::{Order, Rival};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What the order of the shapes hangs on.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SearchOrder)]
pub(super) struct OrderKeys {
    /// `ln` of the GPU time per token of the second shape over that of the first.
    lead: f64,
    /// Half width of its 90 % interval, without what both share.
    lead_half_width: f64,
    /// Operators that differ, with their share of the variance of the lead, the most first: timing them would narrow it.
    narrows: Vec<NarrowsKeys>,
    /// The first shape that does not tie with the first, where the objective is speed.
    #[serde(skip_serializing_if = "Option::is_none")]
    rival: Option<RivalKeys>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = NarrowingOperator)]
struct NarrowsKeys {
    role: Role,
    operator: String,
    variance_share: f64,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SearchRival)]
struct RivalKeys {
    rank: usize,
    /// The nearest values of dimensions of the workload, as powers of two times what they are, with which it is faster than the first.
    flips: BTreeMap<Dimension, u64>,
    /// Dimensions in which no value from an eighth to eight times as large is one.
    stays: Vec<Dimension>,
}

impl OrderKeys {
    pub(super) fn new(order: &Order) -> Self {
        let narrows = order.narrows.iter();
        Self {
            lead: order.lead[0],
            lead_half_width: order.lead[1],
            narrows: narrows
                .map(|(role, op, share)| NarrowsKeys {
                    role: *role,
                    operator: op.to_string(),
                    variance_share: *share,
                })
                .collect(),
            rival: order.rival.as_ref().map(RivalKeys::from),
        }
    }
}

impl From<&Rival> for RivalKeys {
    fn from(rival: &Rival) -> Self {
        Self {
            rank: rival.place + 1,
            flips: rival.flips.iter().copied().collect(),
            stays: rival.stays.clone(),
        }
    }
}

impl SearchReport {
    /// What would flip the order, and which measurements would narrow it.
    pub(super) fn order_lines(&self) -> Vec<String> {
        let Some(order) = &self.order else { return Vec::new() };
        let mut lines = Vec::new();
        if let Some(RivalKeys { rank, flips, stays }) = &order.rival {
            let flips = flips
                .iter()
                .map(|(dimension, value)| format!("{dimension} {}", grouped(*value)));
            let flips: Vec<String> = flips.collect();
            let no_flip = format!("o {} from an eighth to eight times as large", joined(" or ", stays));
            let flips = joined(" or ", flips);
            lines.push(match (flips.is_empty(), stays.is_empty()) {
                (false, true) => format!("{rank} comes before 1 with {flips}."),
                (false, false) => format!("{rank} comes before 1 with {flips}; n{no_flip} does that."),
                (true, _) => format!("N{no_flip} puts {rank} before 1."),
            });
        }
        let named = order.narrows.iter().filter(|one| one.variance_share > 0.0);
        let named = named.map(|one| {
            let role = one.role.name().replace('_', " ");
            format!("{role} ({}) {}", one.operator, percent(one.variance_share))
        });
        let named: Vec<String> = named.collect();
        if !named.is_empty() {
            let [first, second] = if order.lead < 0.0 { [2, 1] } else { [1, 2] };
            lines.push(format!(
                "{first} leads {second} in time by {} within {} either way (90 %); what timing would narrow it most, by its share of the variance: {}.",
                percent(order.lead.abs().exp_m1()),
                percent(order.lead_half_width),
                joined("; ", named)
            ));
        }
        lines
    }
}
